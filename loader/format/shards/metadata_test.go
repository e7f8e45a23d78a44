package shards

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/parquet"
)

// TestMetadata: the table that packing writes says as much as a walk over the shards.
// Conditions on it, and on columns that were added to it, choose samples.
func TestMetadata(t *testing.T) {
	const n = 60
	dir := filepath.Join(t.TempDir(), "set")
	packed, _, err := Pack(t.Context(), folder(t, n), dir, PackOptions{ShardSize: 16 << 10, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, Metadata)
	m, err := readMetadata(t.Context(), nil, dir)
	if err != nil || m.Rows != n {
		t.Fatal(m, err)
	}
	d, err := openAt(t, dir, "") // by the table
	if err != nil {
		t.Fatal(err)
	}
	walked, err := func() (*Dataset, error) {
		table, err := os.ReadFile(path)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return nil, err
		}
		defer os.WriteFile(path, table, 0o600)
		return openAt(t, dir, "")
	}()
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.shards {
		if m.index(&packed[i]) == nil || !reflect.DeepEqual(d.shards[i].index, walked.shards[i].index) {
			t.Errorf("shard %d: the table says %+v, walking finds %+v", i, d.shards[i].index, walked.shards[i].index)
		}
	}
	if w, h := m.Column("width"), m.Column("height"); !w.Has(0) || w.Ints[0] <= 0 || h.Ints[0] <= 0 || m.Column("class").Texts[0] != d.Info().Classes[m.Column("label").Ints[0]] {
		t.Errorf("row 0: %+v %+v", w, h)
	}

	mine := parquet.Column{Name: "fold", Kind: parquet.Int}
	for i := range n {
		mine.Ints = append(mine.Ints, int64(i%5))
	}
	m.Columns = append(m.Columns, mine)
	b, err := parquet.Marshal(m.Table, "a test")
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	count := func(where string) []int32 {
		t.Helper()
		d, err := Open(context.Background(), dir, Options{Where: where})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var labels []int32
		for i := range d.Info().Samples {
			s := loader.Sample{Index: i}
			if err := d.Read(t.Context(), &s); err != nil { // with its checksum
				t.Fatal(err)
			}
			labels = append(labels, s.Label)
		}
		if len(d.Info().Classes) != 3 {
			t.Errorf("classes %v", d.Info().Classes)
		}
		return labels
	}
	if got := count("label = 1"); len(got) != n/3 || slices.ContainsFunc(got, func(l int32) bool { return l != 1 }) {
		t.Errorf("classes %v", got)
	}
	if got := count("class in ('c0', 'c2') and fold < 2"); len(got) == 0 || len(got) > n*2/5 || slices.Contains(got, 1) {
		t.Errorf("classes %v", got)
	}
	for where, says := range map[string]string{
		"label > 5": "none of its 60 fits label > 5; choose another condition", "lable = 1": `there is no column "lable"; choose one of key, shard,`,
	} {
		if _, err := Open(t.Context(), dir, Options{Where: where}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", where, err)
		}
	}
	if err := os.WriteFile(path, []byte("PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, dir, ""); err != nil { // walking does not need it
		t.Error(err)
	}
	if _, err := Open(t.Context(), dir, Options{Where: "label = 1"}); err == nil || !strings.Contains(err.Error(), "it is no Parquet file") {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{Where: "label = 1"}); err == nil || !strings.Contains(err.Error(), "there is no metadata.parquet beside its shards") {
		t.Error(err)
	}
}

// TestSizeOfFile: an image's size is found even after a large preview. The size of anything
// else is unknown.
func TestSizeOfFile(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30)), nil); err != nil {
		t.Fatal(err)
	}
	small := b.Bytes()
	preview := append([]byte{0xff, 0xe1, 0xff, 0xff}, make([]byte, 0xfffd)...) // a segment of 65,535 bytes
	for name, c := range map[string]struct {
		content []byte
		want    sized
	}{
		"small": {small, sized{40, 30}}, "behind a preview": {slices.Concat(small[:2], preview, preview, small[2:]), sized{40, 30}},
		"text": {[]byte("hello"), sized{}}, "nothing": {nil, sized{}},
	} {
		path := filepath.Join(t.TempDir(), "x.jpg")
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := sizeOfFile(path); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
