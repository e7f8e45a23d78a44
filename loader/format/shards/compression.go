package shards

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/source"
)

// compression is a way to compress shards.
type compression struct {
	name string
	ext  []string // extensions of shards that have it
	open func(*bufio.Reader) (io.ReadCloser, error)
	held int64 // the most bytes of memory that unpacking a shard needs
}

var compressions = []compression{
	{"gzip", []string{".tar.gz", ".tgz"}, func(r *bufio.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }, 64 << 10},
	{"zstd", []string{".tar.zst", ".tar.zstd", ".tzst"}, openZstd, maxWindow + 1<<20},
}

// extUnread are the extensions of compressions that this package cannot read.
var extUnread = []string{".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tar.lz4"}

// Unread returns the name of a tar at path, or in its folder train, whose compression this
// package cannot read. It is empty if there is none.
func Unread(ctx context.Context, f *source.Files, path string) string {
	const few = 64
	if hasExt(path, extUnread) {
		return source.Name(path)
	}
	for _, dir := range []string{path, source.Join(path, "train")} {
		names := f.Some(ctx, dir, few)
		slices.Sort(names)
		for _, name := range names {
			if hasExt(name, extUnread) {
				return name
			}
		}
	}
	return ""
}

// compressionOf returns the compression that a shard's name says, or nil.
func compressionOf(name string) *compression {
	for i := range compressions {
		if hasExt(name, compressions[i].ext) {
			return &compressions[i]
		}
	}
	return nil
}

func hasExt(name string, exts []string) bool {
	for _, ext := range exts {
		if strings.HasSuffix(name, ext) {
			return true
		}
	}
	return false
}

// maxWindow is how far zstd's levels up to 19 look back; its decoder takes as much memory.
const maxWindow = 8 << 20

// zstdMagic begins a frame. A frame to be skipped begins with skippable, whose lowest four bits
// may be any.
var (
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	skippable = []byte{0x2a, 0x4d, 0x18}
)

func openZstd(r *bufio.Reader) (io.ReadCloser, error) {
	if b, _ := r.Peek(4); !bytes.Equal(b, zstdMagic) && (len(b) < 4 || b[0]>>4 != 5 || !bytes.Equal(b[1:], skippable)) {
		return nil, errors.New("zstd: invalid header")
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// unpacked is the archive inside a compressed shard.
type unpacked struct {
	z   io.ReadCloser
	pos int64
	err error
}

func unpack(r io.Reader, c *compression) (*unpacked, error) {
	z, err := c.open(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return nil, errs.Reason(fmt.Sprintf("it is not a %s file (%v)", c.name, err), hintShard).Because(err)
	}
	return &unpacked{z: z}, nil
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	u.pos += int64(n)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = errs.Reason(fmt.Sprintf("it is compressed by zstd with a window of more than %d MiB", maxWindow>>20),
			"compress it with a level of at most 19 and without --long").Because(err)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

func (u *unpacked) skip(n int64) error {
	_, err := io.CopyN(io.Discard, u, n)
	return err
}

func (u *unpacked) at() int64 { return u.pos }

func (u *unpacked) stuck() error { return u.err }

// maxRest is how many bytes may follow the last file of a tar. Tars are filled up to whole
// records, usually of 10 KiB.
const maxRest = 16 << 20

// rest reads to the end, where the checksum of the compressed data is.
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

func (u *unpacked) Close() error { return u.z.Close() }
