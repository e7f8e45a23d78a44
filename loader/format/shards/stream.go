package shards

import (
	"context"
	"errors"
	"hash/crc32"
	"io"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
)

// Stream is a set of shards that are read forwards. These are compressed shards (.tar.gz,
// .tar.zst), which can only be read so, and shards in a store.
type Stream struct{ *Dataset }

var (
	_ loader.Stream  = Stream{}
	_ loader.Seeker  = Stream{}
	_ loader.Locator = Stream{}
)

// streamLanes is how many shards are read at a time, each by whichever worker needs it.
const streamLanes = 4

// Grouping returns the shards as groups.
func (d Stream) Grouping() loader.Grouping {
	return loader.Grouping{Starts: d.starts, Lanes: streamLanes}
}

// Open begins to read a shard.
func (d Stream) Open(ctx context.Context, group int) (loader.Cursor, error) {
	return d.OpenAt(ctx, group, 0)
}

// OpenAt begins to read a shard after so many samples. A compressed one is unpacked up to
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
	u, err := unpack(c.stream, compressionOf(s.name))
	if err != nil {
		_ = c.Close() // it was only read
		return nil, errs.Wrap(err, "unpack", source.Join(d.info.Path, s.name), hintShard)
	}
	c.from, c.unpacked = u, u
	return c, nil
}

// tape is a file that is read forwards.
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
	waited int64 // the part of stream.Waited already added to samples

	unpacked *unpacked // the same as from if the shard is compressed, else nil
}

// Next fetches the next sample. In a compressed shard it also unpacks what lies before the
// sample.
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
		why := errs.Explain(err)
		return c.d.blame(op, index, errs.Reason(why.Reason, errs.Hint(err, hintShard)).Because(err))
	}
	c.next++
	if e.sum != 0 && crc32.Checksum(s.Raw, castagnoli) != e.sum {
		return c.d.blame(op, index, errSum(n))
	}
	s.Label = max(e.label, 0)
	return nil
}

// Close closes the shard.
func (c *cursor) Close() error {
	var err error
	if c.unpacked != nil {
		err = c.unpacked.Close()
	}
	return errors.Join(err, c.stream.Close(), c.file.Close())
}

// forwards reads an uncompressed shard forwards.
type forwards struct {
	s    source.Stream
	pos  int64
	file source.File
	ctx  context.Context // of a walk
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

// Seek only goes forwards. archive/tar uses it to skip the contents of files.
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

// rest does what window.rest does.
func (f *forwards) rest() error {
	w := window{r: readerAt{f.ctx, f.file}, size: f.file.Entry().Size, pos: f.pos}
	return w.rest()
}
