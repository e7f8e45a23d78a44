package parquet

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func table(rows int) *Table {
	t := &Table{Rows: rows, About: map[string]string{"of": "a test", "ä": ""}, Columns: []Column{
		{Name: "n", Kind: Int}, {Name: "x", Kind: Float}, {Name: "text", Kind: Text, Null: make([]bool, rows)}, {Name: "yes", Kind: Bool},
	}}
	for i := range rows {
		t.Columns[0].Ints = append(t.Columns[0].Ints, int64(i)*7-100)
		t.Columns[1].Floats = append(t.Columns[1].Floats, float64(i)/8)
		t.Columns[3].Ints = append(t.Columns[3].Ints, int64(i%3%2))
		text := strings.Repeat("ü", i%5)
		if t.Columns[2].Null[i] = i%4 == 1; i%4 == 1 {
			text = ""
		}
		t.Columns[2].Texts = append(t.Columns[2].Texts, text)
	}
	return t
}

// TestRoundTrip: a table is read as it was written.
func TestRoundTrip(t *testing.T) {
	for _, rows := range []int{0, 1, 9, 1000, groupRows + 3} {
		want := table(rows)
		b, err := Marshal(want, "a test")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unmarshal(b)
		if err != nil {
			t.Fatal(rows, err)
		}
		if rows > 0 && !reflect.DeepEqual(got, want) || got.Rows != rows || len(got.Columns) != 4 {
			t.Errorf("%d rows: %+v", rows, got)
		}
	}
}

// TestPyArrow: files of pyarrow (testdata/make.py) give the same table, with and without
// dictionary and compression, and in either kind of page. Nested columns are left out.
func TestPyArrow(t *testing.T) {
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	want := table(40)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unmarshal(b)
		if filepath.Base(file) == "kinds.parquet" {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got.Column("list") != nil || got.Rows != 40 {
			t.Errorf("%s: %d rows", file, got.Rows)
		}
		for i := range want.Columns {
			w, g := &want.Columns[i], got.Column(want.Columns[i].Name)
			for row := range 40 {
				if g.Has(row) != w.Has(row) {
					t.Errorf("%s: %s: row %d has a value or not", file, w.Name, row)
				}
			}
			if g.Kind != w.Kind || !reflect.DeepEqual(g.Ints, w.Ints) || !reflect.DeepEqual(g.Floats, w.Floats) || !reflect.DeepEqual(g.Texts, w.Texts) {
				t.Errorf("%s: column %s differs: %+v", file, w.Name, g)
			}
		}
	}
}

// TestKinds: unsigned numbers keep their values. Columns of other kinds are left out with the
// reason.
func TestKinds(t *testing.T) {
	b, err := os.ReadFile("testdata/kinds.parquet")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unmarshal(b)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]int64{
		"n": {0, 1, 2, 3}, "u32": {1<<32 - 1, 1<<32 - 2, 1<<32 - 3, 1<<32 - 4}, "u64": {1<<63 - 4, 1<<63 - 3, 1<<63 - 2, 1<<63 - 1}, "last": {0, 1, 2, 3},
	} {
		if c := got.Column(name); c == nil || !reflect.DeepEqual(c.Ints, want) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for name, want := range map[string]string{
		"beyond": "it has numbers of 2^63 and more; ", "price": "it holds decimals; ", "half": "its type is not known here (7); ",
		"nested": "it is nested; ", "delta": "its encoding 5 is not known here; ",
	} {
		if why := got.Unread[name]; got.Column(name) != nil || !strings.HasPrefix(why, want) {
			t.Errorf("%s: %q", name, why)
		}
	}
	if len(got.Unread) != 5 {
		t.Error(got.Unread)
	}
}

// TestBomb: the size that a page claims, in its header or in zstd's, costs no memory. Windows
// beyond the limit and extreme compression ratios are refused.
func TestBomb(t *testing.T) {
	frame := func(blocks int, header ...byte) []byte {
		b := append([]byte{0x28, 0xb5, 0x2f, 0xfd}, header...)
		for range blocks - 1 {
			b = append(b, 0x02, 0x00, 0x10, 'x') // 128 KiB of one letter
		}
		return append(b, 0x03, 0x00, 0x10, 'x') // the last ones
	}
	for _, tt := range []struct {
		name  string
		page  []byte
		whole int
	}{
		{"header", frame(1, 0x00, 0x38), 256 << 20},
		{"content", frame(1, 0xa0, 0, 0, 0, 0x10), 1 << 20}, // 256 MiB
		{"window", frame(1, 0x00, 0x90), 1 << 20},           // 256 MiB
		{"growth", frame(1024, 0x00, 0x38), 128 << 20},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := unpack(tt.page, tt.whole, codecZstd)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 2*maxWindow {
			t.Errorf("%s: %v, %d MiB", tt.name, err, took>>20)
		}
	}
}

func TestDamaged(t *testing.T) {
	b, err := Marshal(table(50), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 3, 11, len(b) / 2, len(b) - 1} {
		if _, err := Unmarshal(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were read", n, len(b))
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.parquet")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	b, _ := Marshal(table(9), "")
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if t, err := Unmarshal(b); err == nil {
			_, _ = Marshal(t, "")
		}
	})
}
