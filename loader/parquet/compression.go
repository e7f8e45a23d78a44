package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// unpack undoes the compression of a page that is said to have so many bytes, and takes no
// memory for them before they are there.
func unpack(b []byte, whole int, codec int64) ([]byte, error) {
	switch codec {
	case codecNone:
		return b, nil
	case codecSnappy:
		return snappy(b, whole)
	case codecGzip:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, errDamaged
		}
		return inflate(z, len(b), whole)
	case codecZstd:
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, errDamaged
		}
		defer z.Close()
		b, err = inflate(z, len(b), whole)
		if errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return nil, unknownError(fmt.Sprintf("it is compressed by zstd with a window of more than %d MiB; write it with a level of at most 19", maxWindow>>20))
		}
		return b, err
	}
	return nil, unknownError(fmt.Sprintf("it is compressed by a method that is not known here (%d); write it with Snappy, zstd, gzip or uncompressed", codec))
}

// Limits on what a page unpacks to: maxWindow is what zstd's levels up to 19 look back at,
// which the decoder takes at once. A page of more than freePage bytes is maxGrowth times as
// large as it was packed at the most, as gzip's cannot help to be.
const (
	maxWindow = 8 << 20
	freePage  = 64 << 20
	maxGrowth = 1 << 10
)

// inflate reads a page of so many bytes, of which packed were stored.
func inflate(z io.Reader, packed, whole int) ([]byte, error) {
	if whole > freePage && whole/maxGrowth > packed {
		return nil, errDamaged
	}
	var out strings.Builder
	switch n, err := io.Copy(&out, io.LimitReader(z, int64(whole)+1)); {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, err
	case err != nil || n != int64(whole):
		return nil, errDamaged
	}
	return []byte(out.String()), nil
}

// snappy undoes Snappy's compression (https://github.com/google/snappy, format_description).
func snappy(b []byte, whole int) ([]byte, error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n != uint64(whole) || n > uint64(len(b))*64 {
		return nil, errDamaged
	}
	out := make([]byte, 0, n)
	for b = b[k:]; len(b) > 0; {
		tag := b[0]
		length, offset, used := 0, 0, 1
		switch tag & 3 {
		case 0:
			length = int(tag >> 2)
			if length >= 60 {
				extra := length - 59
				if len(b) < 1+extra {
					return nil, errDamaged
				}
				length = 0
				for i := range extra {
					length |= int(b[1+i]) << (8 * i)
				}
				used += extra
			}
			length++
			if length > len(b)-used || length > whole-len(out) {
				return nil, errDamaged
			}
			out = append(out, b[used:used+length]...)
			b = b[used+length:]
			continue
		case 1:
			if len(b) < 2 {
				return nil, errDamaged
			}
			length, offset, used = 4+int(tag>>2&7), int(tag>>5)<<8|int(b[1]), 2
		case 2:
			if len(b) < 3 {
				return nil, errDamaged
			}
			length, offset, used = 1+int(tag>>2), int(b[1])|int(b[2])<<8, 3
		case 3:
			if len(b) < 5 {
				return nil, errDamaged
			}
			length, offset, used = 1+int(tag>>2), int(binary.LittleEndian.Uint32(b[1:])), 5
		}
		if offset <= 0 || offset > len(out) || length > whole-len(out) {
			return nil, errDamaged
		}
		for range length { // it may overlap what it makes
			out = append(out, out[len(out)-offset])
		}
		b = b[used:]
	}
	if len(out) != whole {
		return nil, errDamaged
	}
	return out, nil
}
