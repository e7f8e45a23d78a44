package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader/codec"
	"dev.gpustall/loader/filter"
	"dev.gpustall/loader/parquet"
	"dev.gpustall/loader/source"
)

// Metadata is the table beside the shards of a split, with a row for each sample. It has key,
// shard, ext, offset, size and crc32c of the image or array, and label, class, width and height
// if they are known. Pack writes it; for Options.Where, people may add columns.
const Metadata = "metadata.parquet"

// sized is a sample's width and height; 0 if they are unknown.
type sized struct{ w, h int }

// writeMetadata writes the table of a plan's samples. dims has the sizes of the images in the
// shards that this call wrote.
func writeMetadata(ctx context.Context, src Source, to *source.Files, dir string, plan [][]item, packed []Packed, dims map[int]sized) error {
	classes := src.Info().Classes
	t := parquet.Table{Columns: []parquet.Column{
		{Name: "key", Kind: parquet.Text}, {Name: "shard", Kind: parquet.Text}, {Name: "ext", Kind: parquet.Text},
		{Name: "offset"}, {Name: "size"}, {Name: "crc32c"}, {Name: "label", Null: []bool{}}, {Name: "class", Kind: parquet.Text, Null: []bool{}},
		{Name: "width", Null: []bool{}}, {Name: "height", Null: []bool{}},
	}}
	texts := func(column int, v string) { t.Columns[column].Texts = append(t.Columns[column].Texts, v) }
	ints := func(column int, v int64) { t.Columns[column].Ints = append(t.Columns[column].Ints, v) }
	missing := func(column int, is bool) { t.Columns[column].Null = append(t.Columns[column].Null, is) }
	for i, items := range plan {
		path := source.Join(dir, packed[i].Name)
		st, err := to.Stat(ctx, path)
		if err != nil {
			return errs.File(err, "list", path, hintOther)
		}
		st.Name = packed[i].Name
		s, err := openShard(ctx, dir, st, &packed[i], Options{Files: to})
		if err != nil {
			return err
		}
		if len(s.entries) != len(items) {
			return errs.New("list", path, fmt.Sprintf("it holds %d samples where %d were packed", len(s.entries), len(items)), hintOther)
		}
		for j, it := range items {
			e, t0 := &s.entries[j], t.Rows
			t.Rows = t0 + 1
			file := src.Path(it.index)
			texts(0, s.key(j))
			texts(1, packed[i].Name)
			texts(2, strings.ToLower(filepath.Ext(file)))
			ints(3, e.off)
			ints(4, int64(e.size))
			ints(5, int64(e.sum))
			missing(6, e.label == none)
			ints(6, int64(max(e.label, 0)))
			name := ""
			if e.label != none && int(e.label) < len(classes) {
				name = classes[e.label]
			}
			missing(7, name == "")
			texts(7, name)
			d, known := dims[it.index]
			if !known && s.kind == images { // of a shard that an earlier call wrote
				d = sizeOfFile(file)
			}
			missing(8, d.w == 0)
			missing(9, d.h == 0)
			ints(8, int64(d.w))
			ints(9, int64(d.h))
		}
	}
	b, err := parquet.Marshal(&t, "gpustall")
	if err != nil {
		return err
	}
	return to.WriteAll(ctx, source.Join(dir, Metadata), b)
}

// sizeOf returns the size in an image's header.
func sizeOf(b []byte) sized {
	w, h, ok := codec.Size(b)
	if !ok {
		return sized{}
	}
	return sized{w, h}
}

// sizeOfFile reads only the beginning of a file, unless a preview lies before the size.
func sizeOfFile(path string) sized {
	f, err := os.Open(path)
	if err != nil {
		return sized{}
	}
	defer f.Close()
	b := make([]byte, 64<<10)
	n, err := io.ReadFull(f, b)
	if s := sizeOf(b[:n]); err != nil || s != (sized{}) {
		return s
	}
	rest, err := io.ReadAll(f)
	if err != nil {
		return sized{}
	}
	return sizeOf(append(b, rest...))
}

// metadata is the table that was read, and the rows of each shard.
type metadata struct {
	*parquet.Table
	shards map[string][]int
}

const hintMetadata = "remove it, or pack the data again"

// readMetadata reads the table of a split; it returns nil if there is none.
func readMetadata(ctx context.Context, f *source.Files, root string) (*metadata, error) {
	path := source.Join(root, Metadata)
	b, err := f.ReadAll(ctx, path, parquet.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errs.File(err, "read", path, hintMetadata)
	}
	t, err := parquet.Unmarshal(b)
	if err != nil {
		return nil, errs.New("read", path, err.Error(), hintMetadata).Because(err)
	}
	for name, kind := range map[string]parquet.Kind{"shard": parquet.Text, "offset": parquet.Int} {
		if c := t.Column(name); c == nil || c.Kind != kind || c.Null != nil && slices.Contains(c.Null, true) {
			reason := fmt.Sprintf("it has no column %s of %s in every row", name, kind)
			if why, ok := t.Unread[name]; ok {
				reason = fmt.Sprintf("its column %s cannot be read: %s", name, why)
			}
			return nil, errs.New("read", path, reason, hintMetadata)
		}
	}
	m := &metadata{t, map[string][]int{}}
	for row, name := range t.Column("shard").Texts {
		m.shards[name] = append(m.shards[name], row)
	}
	return m, nil
}

// rows returns the rows of a shard. The shard may have been compressed after the table was
// written; the places are then those in the unpacked shard.
func (m *metadata) rows(shard string) []int {
	if rows := m.shards[shard]; len(rows) > 0 {
		return rows
	}
	if c := compressionOf(shard); c != nil {
		for _, ext := range c.ext {
			if name, ok := strings.CutSuffix(shard, ext); ok {
				return m.shards[name+Ext]
			}
		}
	}
	return nil
}

// index returns what the table says about a shard that was packed with it, which is as much
// as a walk would find. It is nil if the table lacks something or describes another shard.
func (m *metadata) index(p *Packed) *index {
	rows := m.shards[p.Name]
	key, ext, size, sum, label := m.Column("key"), m.Column("ext"), m.Column("size"), m.Column("crc32c"), m.Column("label")
	for _, c := range []*parquet.Column{key, ext} {
		if c == nil || c.Kind != parquet.Text {
			return nil
		}
	}
	for _, c := range []*parquet.Column{size, sum, label} {
		if c == nil || c.Kind != parquet.Int {
			return nil
		}
	}
	if len(rows) != p.Samples {
		return nil
	}
	rows = slices.Clone(rows)
	off := m.Column("offset").Ints
	slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(off[a], off[b]) })
	x := &index{}
	for _, row := range rows {
		k := extensions[strings.TrimPrefix(ext.Texts[row], ".")]
		if x.kind == 0 {
			x.kind = k
		}
		n := size.Ints[row]
		if k == 0 || k != x.kind || off[row] < 0 || n < 0 || n > maxSample || off[row] > p.Bytes-n || sum.Ints[row] < 0 || sum.Ints[row] > 1<<32-1 {
			return nil
		}
		e := entry{off: off[row], size: uint32(n), label: none, sum: uint32(sum.Ints[row])}
		if label.Has(row) {
			if label.Ints[row] < 0 || label.Ints[row] > maxLabel {
				return nil
			}
			e.label = int32(label.Ints[row])
		}
		x.keys = append(x.keys, key.Texts[row]...)
		e.key = uint32(len(x.keys))
		x.entries = append(x.entries, e)
	}
	return x
}

// choose keeps only the samples that fit a condition on the table.
func (d *Dataset) choose(root, text string, m *metadata) error {
	if m == nil {
		return errs.New("choose samples of", root, "there is no "+Metadata+" beside its shards, in which a condition looks", "pack the data again: gpustall data pack writes it")
	}
	fits, err := filter.Rows(text, m.Table)
	if err != nil {
		return err
	}
	off, chosen := m.Column("offset").Ints, 0
	for i := range d.shards {
		s := &d.shards[i]
		listed := m.rows(s.name)
		rows := make(map[int64]bool, len(listed))
		for _, row := range listed {
			rows[off[row]] = fits[row]
		}
		x := &index{kind: s.kind}
		for j := range s.entries {
			e := s.entries[j]
			fit, known := rows[e.off]
			if !known {
				return errs.New("choose samples of", source.Join(root, s.name), fmt.Sprintf("%s does not list sample %s at byte %d", Metadata, errs.Path(s.key(j)), e.off), hintMetadata)
			}
			if !fit {
				continue
			}
			x.keys = append(x.keys, s.key(j)...)
			e.key = uint32(len(x.keys))
			x.entries = append(x.entries, e)
		}
		s.index = x
		chosen += len(x.entries)
	}
	if chosen == 0 {
		return errs.New("choose samples of", root, fmt.Sprintf("none of its %d fits %s", m.Rows, text), "choose another condition")
	}
	return nil
}
