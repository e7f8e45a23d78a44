package shards

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"dev.gpustall/engine/fault"
	"dev.gpustall/loader"
)

// Stream is compressed shards (.tar.gz, .tgz), which can only be read forwards. That walking
// over one unpacks it is why its index is worth keeping.
type Stream struct{ *Dataset }

var (
	_ loader.Stream  = Stream{}
	_ loader.Locator = Stream{}
)

// streamLanes is how many compressed shards are unpacked at a time, each by whichever worker
// needs it.
const streamLanes = 4

// Grouping are the shards.
func (d Stream) Grouping() loader.Grouping {
	return loader.Grouping{Starts: d.starts, Lanes: streamLanes}
}

// Open begins to unpack a shard.
func (d Stream) Open(ctx context.Context, group int) (loader.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.reopen(&d.shards[group])
	if err != nil {
		return nil, err
	}
	u, err := unpack(f)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, fault.Wrap(err, "unpack", filepath.Join(d.info.Path, d.shards[group].name), mendShard)
	}
	return &cursor{d: d.Dataset, group: group, file: f, from: u}, nil
}

// cursor unpacks a shard, sample by sample.
type cursor struct {
	d     *Dataset
	group int
	next  int // sample of the shard
	file  *os.File
	from  *unpacked
}

// Next fetches the next sample: what lies before it is unpacked as well.
func (c *cursor) Next(ctx context.Context, s *loader.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	index := int(c.d.starts[c.group]) + c.next
	e := &c.d.shards[c.group].entries[c.next]
	_, err := io.CopyN(io.Discard, c.from, e.off-c.from.pos)
	n := int(e.size)
	if cap(s.Raw) < n {
		s.Raw = make([]byte, n+n/4)
	}
	s.Raw = s.Raw[:n]
	if err == nil {
		_, err = io.ReadFull(c.from, s.Raw)
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return c.d.blame("unpack", index, fault.Reason(err.Error(), fault.Mend(err, mendShard)).Because(err))
	}
	c.next++
	if e.sum != 0 && crc32.Checksum(s.Raw, castagnoli) != e.sum {
		return c.d.blame("unpack", index, errSum(n))
	}
	s.Label = max(e.label, 0)
	return nil
}

// Close closes the shard.
func (c *cursor) Close() error { return c.file.Close() }

// unpacked is what a gzip file unpacks to, as a source.
type unpacked struct {
	z   *gzip.Reader
	pos int64
	err error
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
