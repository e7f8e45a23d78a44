package parquet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// unpack decompresses a page that claims to have whole bytes. It allocates memory only for
// bytes that really come.
func unpack(b []byte, whole int, codec int64) ([]byte, error) {
	switch codec {
	case codecNone:
		return b, nil
	case codecSnappy:
		return unsnap(b, whole)
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

// Limits on the size of an unpacked page. maxWindow is how far zstd's levels up to 19 look
// back; the decoder allocates it at once. A page of more than freePage bytes may be at most
// maxGrowth times as large as its packed form, which is gzip's limit.
const (
	maxWindow = 8 << 20
	freePage  = 64 << 20
	maxGrowth = 1 << 10
)

// inflate reads a page of whole bytes, of which packed were stored.
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

// unsnap undoes Snappy's compression, in which one byte makes at most 64.
func unsnap(b []byte, whole int) ([]byte, error) {
	const growth = 64
	if n, err := snappy.DecodedLen(b); err != nil || n != whole || n > growth*len(b) {
		return nil, errDamaged
	}
	out, err := snappy.Decode(nil, b)
	if err != nil {
		return nil, errDamaged
	}
	return out, nil
}
