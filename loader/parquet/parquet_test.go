package parquet

import (
	"os"
	"path/filepath"
	"reflect"
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

// TestPyArrow: what pyarrow wrote (testdata/make.py), by dictionary and plainly, compressed or
// not, in either kind of page, is the same table; nested columns are left out.
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
		if strings.Contains(file, "zstd") {
			if err == nil || !strings.Contains(err.Error(), "column n: it is compressed by a method that is not known here (6); write it with Snappy") {
				t.Error(err)
			}
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
