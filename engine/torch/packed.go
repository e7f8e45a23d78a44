package torch

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
)

// packing is a way in which a file may be packed, known by its first bytes.
type packing struct {
	magic string
	open  func(*bufio.Reader) (io.Reader, error)
}

var packings = []packing{
	{"\x1f\x8b", func(b *bufio.Reader) (io.Reader, error) {
		g := &members{b: b, z: new(gzip.Reader)}
		return g, g.member()
	}},
	{"\x28\xb5\x2f\xfd", func(b *bufio.Reader) (io.Reader, error) {
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}},
	{"BZh", func(b *bufio.Reader) (io.Reader, error) { return bzip2.NewReader(b), nil }},
	{"PK\x03\x04", openZip},
	{"\xff\xfe", fromUTF16},
	{"\xfe\xff", fromUTF16},
	{"{\x00", fromUTF16}, {"[\x00", fromUTF16}, // which does not say so
}

// maxWindow is how far zstd may look back. The zstd command needs that much at levels up to 19 and
// with --long.
const maxWindow = 128 << 20

func fromUTF16(b *bufio.Reader) (io.Reader, error) {
	return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Reader(b), nil
}

// others are kinds of files that people take for a trace, by their first bytes.
var others = []struct{ magic, is, hint string }{
	{"\xfd7zXZ\x00", "it is packed by xz, which is not read here", "unpack it first, by xz -d"},
	{"\x04\x22\x4d\x18", "it is packed by lz4, which is not read here", "unpack it first, by lz4 -d"},
	{"7z\xbc\xaf\x27\x1c", "it is packed by 7-Zip, which is not read here", "unpack it first"},
	{"SQLite format 3\x00", "it is an SQLite file, as Nsight Systems exports", noProfiler},
	{"\x80\x04", "it is a Python pickle, as torch.cuda.memory._dump_snapshot writes", noProfiler},
	{"\x89HDF", "it is an HDF5 file", noProfiler},
	{"PAR1", "it is a Parquet file", noProfiler},
}

// A tar archive has tarMagic at tarAt.
const (
	tarMagic = "ustar"
	tarAt    = 257
)

const noProfiler = "import what torch.profiler writes: prof.export_chrome_trace(path) or torch.profiler.tensorboard_trace_handler"

// mostPacked is how often a file may be packed, one packing within another. A download may pack a .gz again.
const mostPacked = 4

// expand returns the text of a trace.
func expand(m *meter) (io.Reader, error) {
	b := bufio.NewReaderSize(m, 1<<16)
	for layer := 0; ; layer++ {
		head, err := b.Peek(tarAt + len(tarMagic))
		if err != nil && !errors.Is(err, io.EOF) { // the parser reports an end
			return b, err
		}
		for i := range others {
			if o := &others[i]; bytes.HasPrefix(head, []byte(o.magic)) {
				return nil, errs.Reason(o.is, o.hint)
			}
		}
		p := packingOf(head)
		switch {
		case len(head) > tarAt && string(head[tarAt:]) == tarMagic:
			return nil, errs.Reason("it is a tar archive", "unpack it first, by tar -xf, and import the folder")
		case p == nil:
			return b, nil
		case layer == mostPacked:
			return nil, errs.Reason(fmt.Sprintf("it is packed more than %d times", mostPacked), hint)
		}
		z, err := p.open(b)
		if err != nil {
			return nil, m.damaged(err)
		}
		b = bufio.NewReaderSize(&growth{packed: m, z: z}, 1<<16)
	}
}

func packingOf(head []byte) *packing {
	for i := range packings {
		if bytes.HasPrefix(head, []byte(packings[i].magic)) {
			return &packings[i]
		}
	}
	return nil
}

// A trace shrinks about 30 times when it is compressed. A file that grows more than maxGrowth times,
// after its first freeGrowth bytes, was made to keep its reader busy. It is refused.
const (
	maxGrowth  = 300
	freeGrowth = 64 << 20
)

// growth reads the unpacked text, and fails if it grows too much.
type growth struct {
	packed *meter
	z      io.Reader
	n      int64
}

func (g *growth) Read(b []byte) (int, error) {
	n, err := g.z.Read(b)
	if g.n += int64(n); g.n > freeGrowth && g.n/maxGrowth > g.packed.n {
		return 0, errs.Reason(fmt.Sprintf("its %s expand to more than %s, as no trace does",
			units.Prose.Bytes(g.packed.n), units.Prose.Bytes(g.n)), hint)
	}
	return n, g.packed.damaged(err)
}

// damage is the error of a file whose packing cannot be read.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// damaged turns an error of unpacking into one that says that the file is damaged. It does not if the file
// ends, cannot be read, or the reason is already known.
func (m *meter) damaged(err error) error {
	if _, told := errs.As(err); err == nil || told || m.err != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(damage)) {
		return err
	}
	return damage{err}
}

// members reads a gzip file, which may have several members.
type members struct {
	b *bufio.Reader
	z *gzip.Reader
}

// member begins the next member of a gzip file.
func (g *members) member() error {
	err := g.z.Reset(g.b)
	g.z.Multistream(false)
	return cut(err)
}

func (g *members) Read(b []byte) (n int, err error) {
	for n == 0 && err == nil {
		if n, err = g.z.Read(b); errors.Is(err, io.EOF) {
			err = g.next()
		}
	}
	return n, err
}

// next continues after a member, with another one or to the end. It skips zeros, as gzip does: they
// are padding of tapes or of a store's blocks.
func (g *members) next() error {
	for {
		switch c, err := g.b.ReadByte(); {
		case err != nil:
			return err
		case c == 0:
			continue
		}
		_ = g.b.UnreadByte() // after a ReadByte it cannot fail
		if head, _ := g.b.Peek(2); !bytes.HasPrefix(head, []byte(packings[0].magic)) {
			return gzip.ErrHeader
		}
		return g.member()
	}
}

// openZip reads the only file of a zip, from its start. It does not need the list at the zip's end.
func openZip(b *bufio.Reader) (io.Reader, error) {
	for {
		var h [30]byte // a local file header
		if _, err := io.ReadFull(b, h[:]); err != nil {
			return nil, cut(err)
		}
		flags, method, size := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint16(h[8:]), binary.LittleEndian.Uint32(h[18:])
		name := make([]byte, binary.LittleEndian.Uint16(h[26:]))
		if _, err := io.ReadFull(b, name); err != nil {
			return nil, cut(err)
		}
		if _, err := b.Discard(int(binary.LittleEndian.Uint16(h[28:]))); err != nil {
			return nil, cut(err)
		}
		const encrypted = 1
		switch {
		case string(h[:4]) != "PK\x03\x04":
			return nil, errs.Reason("it is a zip without a file", hint)
		case flags&encrypted != 0:
			return nil, errs.Reason("it is a zip that is encrypted", "unpack it first")
		case strings.HasSuffix(string(name), "/"): // a folder
			continue
		case method == 0 && size > 0:
			return io.MultiReader(io.LimitReader(b, int64(size)), &single{b}), nil
		case method == 8:
			return io.MultiReader(flate.NewReader(b), &single{b}), nil
		}
		return nil, errs.Reason(fmt.Sprintf("it is a zip by a method that is not read here (%d)", method), "unpack it first")
	}
}

// single follows a zip's first file, and fails where another one follows.
type single struct{ b *bufio.Reader }

func (s *single) Read([]byte) (int, error) {
	const describes = 24 // bytes at most between two files
	if head, _ := s.b.Peek(describes + 4); bytes.Contains(head, []byte("PK\x03\x04")) {
		return 0, errs.Reason("it is a zip of several files", "unpack it, and import one of them, or their folder")
	}
	return 0, io.EOF
}
