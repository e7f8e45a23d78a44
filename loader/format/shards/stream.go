package shards

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"dev.gpustall/engine/fault"
	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
)

// Stream is shards that are read forwards: compressed ones (.tar.gz, .tgz), for which there is
// no other way, so that their indexes are worth keeping, and those in a store.
type Stream struct{ *Dataset }

var (
	_ loader.Stream  = Stream{}
	_ loader.Seeker  = Stream{}
	_ loader.Locator = Stream{}
)

// streamLanes is how many shards are read at a time, each by whichever worker needs it.
const streamLanes = 4

// Grouping are the shards.
func (d Stream) Grouping() loader.Grouping {
	return loader.Grouping{Starts: d.starts, Lanes: streamLanes}
}

// Open begins to read a shard.
func (d Stream) Open(ctx context.Context, group int) (loader.Cursor, error) {
	return d.OpenAt(ctx, group, 0)
}

// OpenAt begins to read a shard behind so many samples. A compressed one is unpacked up to
// there.
func (d Stream) OpenAt(ctx context.Context, group, skip int) (loader.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &d.shards[group]
	f, err := d.reopen(ctx, s)
	if err != nil {
		return nil, err
	}
	c := &cursor{d: d.Dataset, group: group, next: skip, file: f}
	if !d.Compressed() {
		off := s.entries[skip].off
		c.stream = f.Stream(ctx, off)
		c.from = &forwards{s: c.stream, pos: off}
		return c, nil
	}
	c.stream = f.Stream(ctx, 0)
	if c.from, err = unpack(c.stream); err != nil {
		_ = c.Close() // it was only read
		return nil, fault.Wrap(err, "unpack", source.Join(d.info.Path, s.name), mendShard)
	}
	return c, nil
}

// tape is what is read forwards.
type tape interface {
	io.Reader
	at() int64
	skip(n int64) error
}

// cursor reads a shard, sample by sample.
type cursor struct {
	d      *Dataset
	group  int
	next   int // sample of the shard
	file   source.File
	stream source.Stream
	from   tape
	waited int64 // of stream.Waited, told to samples
}

// Next fetches the next sample; of a compressed shard, what lies before it is unpacked as
// well.
func (c *cursor) Next(ctx context.Context, s *loader.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	index := int(c.d.starts[c.group]) + c.next
	e := &c.d.shards[c.group].entries[c.next]
	c.stream.Ahead(max(1, s.Ahead))
	err := c.from.skip(e.off - c.from.at())
	n := int(e.size)
	if cap(s.Raw) < n {
		s.Raw = make([]byte, n+n/4)
	}
	s.Raw = s.Raw[:n]
	if err == nil {
		_, err = io.ReadFull(c.from, s.Raw)
	}
	waited := c.stream.Waited()
	s.FirstByte, c.waited = s.FirstByte+waited-c.waited, waited
	op := "read"
	if c.d.Compressed() {
		op = "unpack"
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		why := fault.Explain(err)
		return c.d.blame(op, index, fault.Reason(why.Reason, fault.Mend(err, mendShard)).Because(err))
	}
	c.next++
	if e.sum != 0 && crc32.Checksum(s.Raw, castagnoli) != e.sum {
		return c.d.blame(op, index, errSum(n))
	}
	s.Label = max(e.label, 0)
	return nil
}

// Close closes the shard.
func (c *cursor) Close() error { return errors.Join(c.stream.Close(), c.file.Close()) }

// forwards is a shard that is read forwards, as it is stored.
type forwards struct {
	s    source.Stream
	pos  int64
	file source.File
	ctx  context.Context //nolint:containedctx // of a walk
	err  error
}

func (f *forwards) Read(p []byte) (int, error) {
	n, err := f.s.Read(p)
	f.pos += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// Seek lets archive/tar leave out what a walk does not look at; it only goes forwards.
func (f *forwards) Seek(offset int64, _ int) (int64, error) {
	err := f.skip(offset)
	return f.pos, err
}

func (f *forwards) skip(n int64) error {
	f.pos += n
	return f.s.Skip(n)
}

func (f *forwards) at() int64 { return f.pos }

func (f *forwards) stuck() error { return f.err }

// rest is a window's.
func (f *forwards) rest() error {
	w := window{r: readerAt{f.ctx, f.file}, size: f.file.Entry().Size, pos: f.pos}
	return w.rest()
}

// unpacked is what a gzip file unpacks to, as an archive.
type unpacked struct {
	z   *gzip.Reader
	pos int64
	err error
}

func (u *unpacked) skip(n int64) error {
	_, err := io.CopyN(io.Discard, u, n)
	return err
}

func unpack(r io.Reader) (*unpacked, error) {
	z, err := gzip.NewReader(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return nil, fault.Reason(fmt.Sprintf("it is not a gzip file (%v)", err), mendShard).Because(err)
	}
	return &unpacked{z: z}, nil
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	u.pos += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

func (u *unpacked) at() int64 { return u.pos }

func (u *unpacked) stuck() error { return u.err }

// maxRest is how much may follow the last file of a tar: tars are filled up to whole
// records, of 10 KiB usually.
const maxRest = 16 << 20

// rest reads to the end, where gzip's checksum is.
func (u *unpacked) rest() error {
	n, err := io.Copy(io.Discard, io.LimitReader(u, maxRest))
	if err != nil {
		return fmt.Errorf("%w behind the last file", err)
	}
	if n == maxRest {
		return fmt.Errorf("more than %d bytes follow the last file", maxRest)
	}
	return nil
}
