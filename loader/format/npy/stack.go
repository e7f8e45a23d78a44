package npy

import (
	"encoding/binary"
	"fmt"
	"math"

	"dev.gpustall/engine/base/errs"
)

// MaxStart is the largest place at which the elements of a file may begin.
const MaxStart = len(magic) + 6 + maxHeader

// ParseStack reads the header of a file that begins with b and holds n samples, one behind
// the other. The first dimension counts them. ParseStack returns the header of each
// sample, in which Start is where the first one begins.
func ParseStack(b []byte) (h Header, n int, err error) {
	d, start, err := parse(b)
	if err != nil {
		return h, 0, err
	}
	if len(d.shape) < 2 || d.shape[0] < 1 {
		return h, 0, errs.Reason(fmt.Sprintf("its array has the shape %s, in which no first dimension counts samples", d.shape), "save an array of (N,C,T,H,W), (N,C,H,W), (N,H,W) or (N,K)")
	}
	h, err = d.header(d.shape[1:], start)
	h.stacked = true
	return h, d.shape[0], err
}

// CheckStack refuses a file of so many bytes that cannot hold the n samples it claims.
func CheckStack(h *Header, n int, size int64) error {
	end := int64(h.Start) + int64(n)*int64(h.Bytes)
	switch {
	case size < end:
		return errs.Reason(fmt.Sprintf("it is truncated: its %d samples of %s end at byte %d, and it has %d", n, h, end, size), hintWrite)
	case size > end:
		return errs.Reason(fmt.Sprintf("%d bytes follow its %d samples of %s", size-end, n, h), hintWrite)
	}
	return nil
}

// Numbers is the header of a row of whole numbers.
type Numbers struct {
	N     int
	Size  int // of each, in bytes
	Start int // where the first one begins

	signed bool
}

// ParseNumbers reads the header of a file that begins with b and is a row of whole numbers,
// (N,) or (N,1).
func ParseNumbers(b []byte) (Numbers, error) {
	d, start, err := parse(b)
	if err != nil {
		return Numbers{}, err
	}
	if len(d.shape) == 0 || len(d.shape) > 2 || len(d.shape) == 2 && d.shape[1] != 1 || d.shape[0] < 1 {
		return Numbers{}, errs.Reason(fmt.Sprintf("its array has the shape %s and is no row of numbers", d.shape), "save one of (N,)")
	}
	size := map[string]int{"|u1": 1, "|i1": 1, "<u2": 2, "<i2": 2, "<u4": 4, "<i4": 4, "<u8": 8, "<i8": 8}[d.descr]
	if size == 0 {
		return Numbers{}, errs.Reason(fmt.Sprintf("its elements are %q, which are no whole numbers in little-endian order", d.descr), "save them as int64")
	}
	return Numbers{N: d.shape[0], Size: size, Start: start, signed: d.descr[1] == 'i'}, nil
}

// Value returns the number in b; ok is false if it is too large for an int64.
func (n *Numbers) Value(b []byte) (v int64, ok bool) {
	var w [8]byte
	copy(w[:], b[:n.Size])
	u := binary.LittleEndian.Uint64(w[:])
	if unused := 64 - 8*n.Size; n.signed {
		return int64(u<<unused) >> unused, true
	}
	return int64(u), u <= math.MaxInt64
}
