package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// digestFormat is the first byte of a digest in a file. A digest of another format, or with other
// causes or kinds, is not used: the steps are read instead.
const digestFormat = 5

var errDigest = errors.New("not a digest of this version")

// WriteTo writes the digest to a file piece by piece, because the digest of a long run has 20 MB.
func (d *Digest) WriteTo(w io.Writer) (n int64, err error) {
	c := codec{w: w}
	c.digest(d)
	return c.n, c.err
}

// UnmarshalBinary reads what WriteTo wrote.
func (d *Digest) UnmarshalBinary(b []byte) error {
	c := codec{b: b}
	c.digest(d)
	if c.err == nil && len(c.b) > 0 {
		c.err = errDigest
	}
	return c.err
}

// codec writes values to w. Where w is nil, it reads them from the front of b instead, so that one
// description of the format serves both.
type codec struct {
	w   io.Writer
	n   int64  // bytes written
	b   []byte // scratch memory of a writer
	err error
}

// fixed writes or reads values of fixed size, given by pointers to them.
func (c *codec) fixed(values ...any) {
	for _, v := range values {
		if c.err != nil {
			return
		}
		if c.w != nil {
			c.put(v)
			continue
		}
		n, err := binary.Decode(c.b, binary.LittleEndian, v)
		if err != nil {
			c.err = fmt.Errorf("%w: %w", errDigest, err)
			return
		}
		c.b = c.b[n:]
	}
}

func (c *codec) put(v any) {
	if c.b, c.err = binary.Append(c.b[:0], binary.LittleEndian, v); c.err != nil {
		return
	}
	n, err := c.w.Write(c.b)
	c.n, c.err = c.n+int64(n), err
}

// length writes or reads the length of a list that has at most limit elements.
func (c *codec) length(n, limit int) int {
	v := uint32(n)
	c.fixed(&v)
	if c.err == nil && int64(v) > int64(limit) {
		c.err = errDigest
	}
	if c.err != nil {
		return 0
	}
	return int(v)
}

// list writes or reads a list of values of fixed size.
func list[T any](c *codec, l *[]T, limit int) {
	n := c.length(len(*l), limit)
	if c.w == nil && n > 0 {
		*l = make([]T, n)
	}
	if n > 0 {
		c.fixed(*l)
	}
}

// pointers writes or reads a list of pointers; each describes one element.
func pointers[T any](c *codec, l *[]*T, limit int, each func(*T)) {
	n := c.length(len(*l), limit)
	for i := range n {
		if c.w == nil {
			*l = append(*l, new(T))
		}
		if each((*l)[i]); c.err != nil {
			return
		}
	}
}

func (c *codec) digest(d *Digest) {
	var names strings.Builder
	for i := range NumCauses {
		names.WriteString(Cause(i).String() + " ")
	}
	for k := range NumKinds {
		names.WriteString(k.String() + " ")
	}
	words := crc32.ChecksumIEEE([]byte(names.String()))
	format, of := uint8(digestFormat), words
	c.fixed(&format, &of)
	if c.err == nil && (format != digestFormat || of != words) {
		c.err = errDigest
	}
	c.fixed(&d.Total, &d.Flags, &d.First, &d.Last, &d.Learning, &d.Diverged, &d.DivergedAt)
	pointers(c, &d.Tallies, MaxRows, c.tally)
	pointers(c, &d.Epochs, MaxRows, c.epoch)
	c.worst(d)
	c.fixed(&d.History.Bucket, &d.History.Open)
	list(c, &d.History.Points, maxHistory)
	if c.err == nil && (d.History.Bucket < 0 || d.History.Bucket%historyBucket != 0) {
		c.err = errDigest
	}
}

func (c *codec) tally(t *Tally) {
	c.fixed(&t.Segment, &t.First, &t.Last, &t.Start, &t.End, &t.Flags, &t.SteadyFlags, &t.All, &t.Steady, &t.Timed,
		&t.Transition, &t.From, &t.To, &t.Epochs, &t.EpochTime)
	c.distribution(&t.Plain)
	c.distribution(&t.Probed)
	c.fixed(&t.Blocks.length)
	list(c, &t.Blocks.list, MaxBlocks)
}

func (c *codec) distribution(d *Distribution) {
	base := int32(d.base)
	c.fixed(&d.n, &base)
	d.base = int(base)
	list(c, &d.exact, exactValues)
	list(c, &d.counts, bucketOf(1<<63-1)+1)
	if c.err != nil {
		return
	}
	few := len(d.counts) == 0
	if d.base < 0 || d.n < 0 || d.base+len(d.counts) > bucketOf(1<<63-1)+1 || few && d.n != int64(len(d.exact)) || !few && len(d.exact) > 0 {
		c.err = errDigest
	}
}

func (c *codec) worst(d *Digest) {
	w := d.worst()
	list(c, &w.Batches, MaxWorst)
	list(c, &w.Samples, MaxWorst)
	c.distribution(&w.Loads)
	c.distribution(&w.Pieces)
}

func (c *codec) epoch(e *Epoch) {
	c.fixed(&e.Epoch, &e.Segment, &e.Totals, &e.Injected, &e.Ceiling, &e.Diverged, &e.Complete, &e.Loss, &e.Hits, &e.LossOf, &e.HitsOf)
}
