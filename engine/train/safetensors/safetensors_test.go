package safetensors

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRoundTrip: what is written is read, bit for bit, also NaNs.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a"+Ext)
	count := int64(7)
	want := []float32{1, -0, float32(math.NaN()), math.MaxFloat32, 1e-45, float32(math.Inf(-1))}
	err := Write(path, []Tensor{
		{Name: "fc.weight", Shape: []int{2, 3}, Data: want}, {Name: "n", Count: &count}, {Name: "empty", Shape: []int{0, 4}}, {Name: "ä\"", Shape: []int{1}, Data: []float32{5}},
	}, map[string]string{"of": "a test"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := f.Floats("fc.weight")
	same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	if err != nil || !slices.EqualFunc(got, want, same) {
		t.Errorf("%v, %v", got, err)
	}
	if shape, _ := f.Shape("fc.weight"); !slices.Equal(shape, []int64{2, 3}) || f.Metadata["of"] != "a test" {
		t.Errorf("%v %v", shape, f.Metadata)
	}
	if want := []string{"fc.weight", "empty", "n", "ä\""}; len(f.Names()) != len(want) || !slices.Contains(f.Names(), want[3]) {
		t.Errorf("%q", f.Names())
	}
	if _, err := f.Floats("n"); err == nil || !strings.Contains(err.Error(), `tensor "n" is of type I64`) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestTypes: the other floating point types, by known bit patterns.
func TestTypes(t *testing.T) {
	for h, want := range map[uint16]float32{0x3c00: 1, 0xc000: -2, 0x0001: 1.0 / (1 << 24), 0x8000: 0, 0x7bff: 65504, 0x0400: 1.0 / (1 << 14), 0x7c00: float32(math.Inf(1))} {
		if got := half(h); got != want {
			t.Errorf("%#04x is %g, want %g", h, got, want)
		}
	}
	if !math.IsNaN(float64(half(0x7e00))) || math.Signbit(float64(half(0x8000))) == false {
		t.Error("NaN or -0")
	}
	v := make([]float32, 1)
	if decoders["BF16"](v, []byte{0x80, 0xbf}); v[0] != -1 {
		t.Errorf("bf16: %g", v[0])
	}
	if decoders["F64"](v, binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.5))); v[0] != 0.5 {
		t.Errorf("f64: %g", v[0])
	}
}

// file makes a file with that header and so many bytes of data.
func file(t testing.TB, header string, data int) string {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if err := os.WriteFile(path, append(b, make([]byte, data)...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefused: a file of another kind, or a damaged one, gives an error that says so
// and never a crash.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, header string
		data         int
		says         string
	}{
		{"truncated", `{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}`, 15, `tensor "w" lies at bytes 0 to 16 of 15`},
		{"other size", `{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,12]}}`, 16, `has 12 bytes where 2x2 of F32 takes 16`},
		{"overflow", `{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0, "has the shape"},
		{"negative", `{"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 0, "lies at bytes"},
		{"overlap", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8, `"b" lies in another one`},
		{"no JSON", `{"w"`, 0, "its header is damaged"},
		{"pickle", "", 0, "no .safetensors file"},
	} {
		_, err := Open(file(t, c.header, c.data))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
	if err := Write(filepath.Join(t.TempDir(), "x"), []Tensor{{Name: "a", Shape: []int{2}, Data: []float32{1}}}, nil); err == nil {
		t.Error("a wrong shape was written")
	}
	if err := Write("/dev/null/x", nil, nil); err == nil || !strings.Contains(err.Error(), "name a file in a folder") {
		t.Error(err)
	}
}

// memory is a file in memory.
type memory struct{ io.ReaderAt }

func (memory) Close() error { return nil }

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"__metadata__":{"a":"b"},"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}`), uint8(4))
	f.Add([]byte(`{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`), uint8(4))
	f.Fuzz(func(t *testing.T, header []byte, data uint8) {
		b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		b = append(b, make([]byte, data)...)
		x := &File{file: memory{bytes.NewReader(b)}}
		if x.header(int64(len(b))) != nil {
			return
		}
		for _, n := range x.Names() {
			_, _ = x.Floats(n)
		}
	})
}
