package cifar

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// hostile has pickles that must be refused, quickly and with little memory.
var hostile = map[string]string{
	"os.system":             "\x80\x02cos\nsystem\nU\x04true\x85R.",
	"posix.system, stack":   "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
	"builtins.eval":         "c__builtin__\neval\n(U\x011tR.",
	"4 GB of bytes":         "\x80\x03B\xff\xff\xff\xff.",
	"2^60 bytes":            "\x80\x04\x8e\x00\x00\x00\x00\x00\x00\x00\x10.",
	"2^60 frame":            "\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x10.",
	"2^60 bytearray":        "\x80\x05\x96\x00\x00\x00\x00\x00\x00\x00\x10.",
	"negative string":       "\x80\x02T\xff\xff\xff\xff.",
	"2 GB integer":          "\x80\x02\x8b\xff\xff\xff\x7f.",
	"empty integer":         "\x80\x02\x8a\x00.",
	"a million marks":       strings.Repeat("(", 1<<20) + ".",
	"two million dicts":     strings.Repeat("}", 2<<20) + ".",
	"endless line":          "I" + strings.Repeat("1", 1<<20),
	"persistent id":         "P1\n.",
	"extension":             "\x80\x02\x82\x01.",
	"opcode 255":            "\xff",
	"odd dict":              "\x80\x02(K\x01d.",
	"odd items":             "\x80\x02}(K\x01u.",
	"stop on nothing":       "\x80\x02.",
	"itself":                "\x80\x02]q\x00h\x00aR.",
	"call of a list":        "\x80\x02]q\x00h\x00a)R.",
	"array of nothing":      "\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87Rs.",
	"array without a state": "\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87RNb.",
	"dtype as function":     "\x80\x02cnumpy\ndtype\n)R.",
	"array of itself":       "\x80\x02cnumpy\nndarray\n)R.",
	"one state, many times": "\x80\x02(" + strings.Repeat("NN", 1<<17) + "dq\x000ccollections\nOrderedDict\n)R" + strings.Repeat("h\x00b", 1<<17) + ".",
	"instance":              "(i__main__\nX\n.",
}

func TestHostilePickles(t *testing.T) {
	for name, p := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, err := parsePython(versions[1], "data_batch_1", []byte(p))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("error %q is not one short sentence", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20+40*uint64(len(p)) {
				t.Errorf("%d bytes allocated for a pickle of %d", got, len(p))
			}
		})
	}
}

// TestEncodeBudget: one big string encoded again and again must not multiply.
func TestEncodeBudget(t *testing.T) {
	const size, calls = 1 << 20, 4000
	var b bytes.Buffer
	b.WriteString("\x80\x02X")
	_ = binary.Write(&b, binary.LittleEndian, uint32(size))
	b.WriteString(strings.Repeat("a", size) + "q\x000")
	for range calls {
		b.WriteString("c_codecs\nencode\nh\x00\x85R")
	}
	b.WriteString(".")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := parsePython(versions[1], "data_batch_1", b.Bytes())
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more encoded text") {
		t.Errorf("err = %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 32*size {
		t.Errorf("%d bytes allocated", got)
	}
}

// FuzzPickle: nothing panics, and what is accepted is consistent.
func FuzzPickle(f *testing.F) {
	for _, dir := range []string{"py2", "py3", "py4"} {
		for _, name := range []string{"data_batch_2", "batches.meta"} {
			b, err := os.ReadFile(filepath.Join("testdata", dir, name))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	for _, p := range hostile {
		if len(p) < 1000 {
			f.Add([]byte(p))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parsePython(versions[1], "data_batch_1", b); err == nil {
			checkContent(t, c)
		}
		if c, err := parsePythonMeta(versions[1], b); err == nil && c.names != nil && len(c.names) != Classes {
			t.Errorf("%d names", len(c.names))
		}
	})
}

func FuzzBinary(f *testing.F) {
	b, err := os.ReadFile("testdata/bin/data_batch_1.bin")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:Record])
	f.Add(b[:17])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseBinary(versions[0], "data_batch_1.bin", bytes.NewReader(b), int64(len(b)))
		if err == nil {
			checkContent(t, c)
		}
		if names := parseNames(versions[0], b); names != nil && len(names) != Classes {
			t.Errorf("%d names", len(names))
		}
	})
}

func FuzzArchive(f *testing.F) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(&tar.Header{Name: "cifar-10-batches-bin/data_batch_1.bin", Mode: 0o644, Size: 3})
	_, _ = w.Write([]byte("abc"))
	_, _ = w.Close(), z.Close()
	f.Add(buf.Bytes())
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = walkTar("x", bytes.NewReader(b), func(name string, h *tar.Header, r io.Reader) (bool, error) {
			_, err := parse("data_batch_1.bin", versions[0], r, h.Size)
			return false, err
		})
	})
}

func checkContent(t *testing.T, c *content) {
	t.Helper()
	if c.n <= 0 || len(c.labels) != c.n {
		t.Fatalf("%d samples, %d labels", c.n, len(c.labels))
	}
	if _, err := c.planes.ReadAt(make([]byte, Pixels), int64(c.off+(c.n-1)*c.stride)); err != nil {
		t.Errorf("the last of %d samples at stride %d: %v", c.n, c.stride, err)
	}
}
