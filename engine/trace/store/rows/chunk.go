package rows

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"dev.gpustall/engine/trace"
)

// A chunk is how spans lie in the file:
//
//	byte    format, chunkFormat
//	uint32  CRC-32 (IEEE) of the rest, little endian
//	uvarint spans
//	uvarint bytes of the body before compression
//	body    DEFLATE of, for each span:
//	          byte track, byte kind,
//	          varint start - previous start, varint end - start,
//	          varint step - previous step on the track, varint batch - previous batch on the track,
//	          uvarint flags, uvarint arg
const (
	chunkFormat  = 1
	MaxSpans     = 1 << 15 // the most spans in one chunk
	minSpanBytes = 8
	maxSpanBytes = 2 + 2*binary.MaxVarintLen64 + 4*binary.MaxVarintLen32
)

var errChunk = errors.New("damaged span chunk")

// Encoder turns spans into chunks. It reuses its buffers.
type Encoder struct {
	raw  []byte
	out  bytes.Buffer
	comp *flate.Writer
}

// Encode returns the chunk of at most MaxSpans spans, valid until the next call.
func (e *Encoder) Encode(spans []trace.Span) ([]byte, error) {
	var last [256]struct{ step, batch int32 }
	var start int64
	e.raw = e.raw[:0]
	for _, s := range spans {
		l := &last[s.Track]
		e.raw = append(e.raw, byte(s.Track), byte(s.Kind))
		e.raw = binary.AppendVarint(e.raw, s.Start-start)
		e.raw = binary.AppendVarint(e.raw, s.End-s.Start)
		e.raw = binary.AppendVarint(e.raw, int64(s.Step-l.step))
		e.raw = binary.AppendVarint(e.raw, int64(s.Batch-l.batch))
		e.raw = binary.AppendUvarint(e.raw, uint64(s.Flags))
		e.raw = binary.AppendUvarint(e.raw, uint64(s.Arg))
		start, l.step, l.batch = s.Start, s.Step, s.Batch
	}
	e.out.Reset()
	var head [5 + 2*binary.MaxVarintLen64]byte
	head[0] = chunkFormat
	n := 5 + binary.PutUvarint(head[5:], uint64(len(spans)))
	n += binary.PutUvarint(head[n:], uint64(len(e.raw)))
	e.out.Write(head[:n])
	if e.comp == nil {
		e.comp, _ = flate.NewWriter(&e.out, flate.BestSpeed) // fails on a bad level only
	} else {
		e.comp.Reset(&e.out)
	}
	if _, err := e.comp.Write(e.raw); err != nil {
		return nil, err
	}
	if err := e.comp.Close(); err != nil {
		return nil, err
	}
	b := e.out.Bytes()
	binary.LittleEndian.PutUint32(b[1:], crc32.ChecksumIEEE(b[5:]))
	return b, nil
}

// Decode appends the spans of a chunk to dst.
func Decode(dst []trace.Span, b []byte) ([]trace.Span, error) {
	if len(b) < 5 {
		return dst, errChunk
	}
	if b[0] != chunkFormat {
		return dst, fmt.Errorf("span chunk of unknown format %d", b[0])
	}
	if binary.LittleEndian.Uint32(b[1:]) != crc32.ChecksumIEEE(b[5:]) {
		return dst, errChunk
	}
	r := reader{b: b[5:]}
	count, size := r.uvarint(), r.uvarint()
	if r.bad || count > MaxSpans || size > count*maxSpanBytes || size < count*minSpanBytes {
		return dst, errChunk
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(r.b)), raw); err != nil {
		return dst, errChunk
	}
	return decodeSpans(slices.Grow(dst, int(count)), raw, count)
}

// decodeSpans appends the spans of a chunk's body to dst.
func decodeSpans(dst []trace.Span, body []byte, count uint64) ([]trace.Span, error) {
	var last [256]struct{ step, batch int32 }
	var start int64
	r := reader{b: body}
	for range count {
		var s trace.Span
		s.Track, s.Kind = trace.TrackID(r.byte()), trace.Kind(r.byte())
		l := &last[s.Track]
		start += r.varint()
		s.Start = start
		s.End = start + r.varint()
		l.step += int32(r.varint())
		l.batch += int32(r.varint())
		s.Step, s.Batch = l.step, l.batch
		s.Flags, s.Arg = uint16(r.uvarint()), uint32(r.uvarint())
		if r.bad {
			return dst, errChunk
		}
		if int(s.Track) < trace.NumTracks {
			dst = append(dst, s)
		}
	}
	return dst, nil
}

// reader consumes b and remembers that it ran out.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.bad, n = true, 0
	}
	r.b = r.b[n:]
}
