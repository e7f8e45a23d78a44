// Package shards reads WebDataset's tar shards: a folder of .tar files. The files of a sample
// follow one another in the tar and share a key, which is the path up to the first dot of the
// name: 000017.jpg, 000017.cls. A sample's input is an image (.jpg .png .webp … see codec) or
// an array (.npy). Its class is a number in a .cls or in a .json. A folder train holds the
// training split; val, valid or test holds the evaluation split.
//
// An uncompressed tar is its own index. One walk over its headers tells where each sample lies,
// and a sample is then read by one read at that place. So samples are served by index in any
// order, and the loader's promises hold. Each epoch has every sample exactly once. The same
// seed gives the same batches whatever the workers. The order keeps to the shards
// (loader.Grouped). An index is kept in the cache folder.
//
// Compressed shards (.tar.gz, .tar.zst, see compression.go) must be unpacked from the
// beginning, so they are a loader.Stream.
package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/codec"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/synth/marker"
)

// Format, as in loader.Info.
const Format = "shards"

// Ext is the extension of shards.
const Ext = ".tar"

// compressed reports whether a shard is compressed, by its name.
func compressed(name string) bool { return compressionOf(name) != nil }

func isShard(name string) bool { return strings.HasSuffix(name, Ext) || compressed(name) }

// Size is the side of an image after the usual transform.
const Size = 224

// ErrNotShards is what Open's error wraps if the path holds no shards.
var ErrNotShards = errors.New("no " + Ext + " shards here")

// Options of opening.
type Options struct {
	Files    *source.Files         // where the shards are read; may be nil
	Cache    string                // the folder of kept indexes; empty: none are kept
	Progress func(done, total int) // shards walked so far; may be nil
	Where    string                // a condition on the table beside the shards (Metadata); empty takes all

	table func() (*metadata, error) // reads that table once
}

// Dataset is a set of shards. It is safe for concurrent use.
type Dataset struct {
	info   loader.Info
	from   *source.Files
	shards []shard
	starts []int32    // the index of each shard's first sample
	array  npy.Header // of the first sample, where samples are arrays
	files  files
}

// shard is a file and what it holds.
type shard struct {
	*index
	name  string // below Info.Path
	entry source.Entry
}

// Open opens the training split at path: a folder of shards, one with a folder train of
// them, or one shard.
func Open(ctx context.Context, path string, o Options) (*Dataset, error) {
	return open(ctx, path, o, "train")
}

// OpenTest opens the evaluation split at path: its folder val, valid or test.
func OpenTest(ctx context.Context, path string, o Options) (*Dataset, error) {
	return open(ctx, path, o, "val", "valid", "test")
}

const hintPath = "give a folder of " + Ext + " files, or one such file"

func open(ctx context.Context, path string, o Options, splits ...string) (*Dataset, error) {
	root, found, whole, err := list(ctx, o.Files, path, splits)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(ctx, o.Files, root)
	if err != nil {
		return nil, err
	}
	if whole {
		if len(m.Shards) == 0 {
			if err := unfinished(ctx, o.Files, root); err != nil {
				return nil, err
			}
		}
		if err := m.check(root, found); err != nil {
			return nil, err
		}
	}
	o.table = sync.OnceValues(func() (*metadata, error) { return readMetadata(ctx, o.Files, root) })
	d := &Dataset{shards: make([]shard, len(found)), from: o.Files}
	if err := d.scan(ctx, root, found, m, o); err != nil {
		return nil, err
	}
	if o.Where != "" {
		table, err := o.table()
		if err == nil {
			err = d.choose(root, o.Where, table)
		}
		if err != nil {
			return nil, err
		}
	}
	d.info = loader.Info{Name: named(path, o.Where), Format: Format, Path: root, H: Size, W: Size, C: 3, Synthetic: m.Synthetic}
	for _, dir := range []string{root, path} {
		if dir != root && !whole {
			continue
		}
		mark, err := marker.In(ctx, o.Files, dir)
		if err != nil {
			return nil, errs.File(err, "open data", source.Join(dir, marker.File), hintPath)
		}
		d.info.Synthetic = d.info.Synthetic || mark != nil
	}
	if source.Remote(root) {
		d.info.Ahead = streamLanes * source.Block
	}
	for i := range found {
		if c := compressionOf(found[i].Name); c != nil {
			d.info.Unpacking = max(d.info.Unpacking, streamLanes*c.held)
		}
	}
	if err := d.add(m); err != nil {
		return nil, err
	}
	if d.kind() == arrays {
		if err := d.measure(ctx); err != nil {
			d.files.close()
			return nil, err
		}
	}
	return d, nil
}

// named returns a data set's name, with the condition that chose its samples.
func named(path, where string) string {
	if where == "" {
		return source.Name(path)
	}
	return source.Name(path) + " where " + where
}

// list finds the folder of a split and its shards, sorted by name: all of them, or the one that
// path names.
func list(ctx context.Context, f *source.Files, path string, splits []string) (root string, found []source.Entry, whole bool, err error) {
	st, err := f.Stat(ctx, path)
	if err != nil {
		return "", nil, false, errs.File(err, "open data", path, hintPath)
	}
	not := errs.New("open data", path, ErrNotShards.Error(), hintPath).Because(ErrNotShards)
	if !st.Dir {
		if !isShard(path) || splits[0] != "train" {
			return "", nil, false, not
		}
		root, st.Name = source.Split(path)
		return root, []source.Entry{st}, false, nil
	}
	root = path
	for _, s := range splits {
		if sub := source.Join(path, s); f.IsDir(ctx, sub) {
			root = sub
			break
		}
	}
	if root == path && splits[0] != "train" {
		return "", nil, false, not
	}
	entries, err := f.List(ctx, root) // sorted
	if err != nil {
		return "", nil, false, errs.File(err, "open data", root, hintPath)
	}
	for _, e := range entries {
		if isShard(e.Name) && e.Name[0] != '.' && !e.Dir {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		if err := unfinished(ctx, f, root); err != nil {
			return "", nil, false, err
		}
		return "", nil, false, not
	}
	if byClass(ctx, f, root, entries) {
		return "", nil, false, not
	}
	first := found[0].Name
	for _, e := range found {
		if compressed(e.Name) != compressed(first) {
			return "", nil, false, errs.New("open data", root, fmt.Sprintf("%s is compressed and %s is not, or the other way round", errs.Path(e.Name), errs.Path(first)), "give each kind a folder of its own")
		}
	}
	return root, found, true, nil
}

// byClass reports whether a folder holds folders of samples. Then it is an image folder beside
// the archives that it was unpacked from. byClass looks at a few names of a few folders.
func byClass(ctx context.Context, f *source.Files, root string, entries []source.Entry) bool {
	const few = 64
	looked := 0
	for _, e := range entries {
		if !e.Dir || e.Name[0] == '.' {
			continue
		}
		if looked++; looked > few {
			return false
		}
		for _, n := range f.Some(ctx, source.Join(root, e.Name), few) {
			if extensions[strings.ToLower(strings.TrimPrefix(filepath.Ext(n), "."))] != 0 {
				return true
			}
		}
	}
	return false
}

// walkers is how many shards are walked at a time. Walking waits for storage.
const walkers = 8

// scan walks the shards, or uses the kept results of an earlier walk.
func (d *Dataset) scan(ctx context.Context, root string, found []source.Entry, m *manifest, o Options) error {
	packed := map[string]*Packed{}
	for i := range m.Shards {
		packed[m.Shards[i].Name] = &m.Shards[i]
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex // Progress is called once at a time, with ascending counts
	for range min(walkers, len(found)) {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					cancel(fmt.Errorf("shards: walk: panic: %v", p))
				}
			}()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(found) {
					return
				}
				s, err := openShard(ctx, root, found[i], packed[found[i].Name], o)
				if err != nil {
					cancel(err)
					return
				}
				d.shards[i] = *s
				if o.Progress != nil {
					mu.Lock()
					o.Progress(int(done.Add(1)), len(found))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// openShard finds what a shard holds. It uses what was kept of an earlier walk or, for a shard
// in a store, the index that was packed with it. Otherwise it walks over the shard.
func openShard(ctx context.Context, root string, e source.Entry, packed *Packed, o Options) (*shard, error) {
	path := source.Join(root, e.Name)
	if source.Remote(root) && packed != nil && packed.Bytes != e.Size {
		return nil, errs.New("open data", path, fmt.Sprintf("it has %d bytes, and %s says %d", e.Size, Manifest, packed.Bytes), hintShard)
	}
	f, err := o.Files.Known(ctx, path, e)
	if err != nil {
		return nil, errs.File(err, "open data", path, hintPath)
	}
	defer f.Close()
	s := &shard{name: e.Name, entry: f.Entry()}
	if s.index, err = load(o.Cache, path, &s.entry); err == nil {
		return s, nil
	}
	if source.Remote(root) && packed != nil {
		s.index, err = beside(ctx, o.Files, path, packed)
	}
	if err != nil && packed != nil && packed.Bytes == e.Size && !compressed(e.Name) && o.table != nil {
		if table, terr := o.table(); terr == nil && table != nil { // a damaged table is an error only for conditions
			if s.index = table.index(packed); s.index != nil {
				err = nil
			}
		}
	}
	if err != nil {
		if s.index, err = walkOver(ctx, f, e.Name); err != nil {
			op := "read"
			if compressed(e.Name) {
				op = "unpack"
			}
			return nil, errs.Wrap(err, op, path, "")
		}
	}
	keep(o.Cache, path, &s.entry, s.index)
	return s, nil
}

// walkOver walks over a shard. It reads a shard in a store forwards, because a request for
// each header would take longer.
func walkOver(ctx context.Context, f source.File, name string) (*index, error) {
	if e := f.Entry(); e.Version == "" && !compressed(name) {
		return walk(&window{r: readerAt{ctx, f}, size: e.Size})
	}
	s := f.Stream(ctx, 0)
	defer s.Close()
	if !compressed(name) {
		return walk(&forwards{s: s, file: f, ctx: ctx})
	}
	u, err := unpack(s, compressionOf(name))
	if err != nil {
		return nil, err
	}
	defer u.Close()
	return walk(u)
}

// readerAt makes an io.ReaderAt of a file.
type readerAt struct {
	ctx context.Context // for the time of a call
	f   source.File
}

func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	n, _, err := r.f.ReadAt(r.ctx, p, off)
	return n, err
}

// add counts samples and classes, and refuses shards that do not go together.
func (d *Dataset) add(m *manifest) error {
	d.shards = slices.DeleteFunc(d.shards, func(s shard) bool { return len(s.entries) == 0 })
	classes := int32(0)
	total, labelled := 0, 0
	missing := [2]int{-1, -1} // the first sample without a class
	for i := range d.shards {
		s := &d.shards[i]
		if s.kind != d.shards[0].kind {
			return errs.New("open data", source.Join(d.info.Path, s.name), fmt.Sprintf("it holds %s, and %s holds %s", s.kind, d.shards[0].name, d.shards[0].kind),
				"give images and arrays folders of their own")
		}
		d.starts = append(d.starts, int32(total))
		if total += len(s.entries); total > 1<<31-1 {
			return errs.New("open data", d.info.Path, fmt.Sprintf("its shards hold more than %d samples", 1<<31-1), "give a part of them")
		}
		for j := range s.entries {
			e := &s.entries[j]
			d.info.Bytes += int64(e.size)
			if e.label != none {
				labelled++
				classes = max(classes, e.label+1)
			} else if missing[0] < 0 {
				missing = [2]int{i, j}
			}
		}
	}
	if total == 0 {
		return errs.New("open data", d.info.Path, "its shards hold no sample", "pack them again").Because(ErrNotShards)
	}
	d.info.Samples = total
	if labelled == 0 {
		return nil // to look at them, or for a modelled step
	}
	if missing[0] >= 0 {
		s := &d.shards[missing[0]]
		return errs.New("open data", source.Join(d.info.Path, s.name), fmt.Sprintf("sample %s at byte %d has no class, and others have one",
			errs.Path(s.key(missing[1])), s.entries[missing[1]].off), hintClass)
	}
	if len(m.Classes) > 0 && int(classes) > len(m.Classes) {
		return errs.New("open data", d.info.Path, fmt.Sprintf("a sample has class %d, and %s names %d classes", classes-1, Manifest, len(m.Classes)), "pack the data again")
	}
	if d.info.Classes = m.Classes; len(m.Classes) == 0 {
		for c := range classes {
			d.info.Classes = append(d.info.Classes, strconv.Itoa(int(c)))
		}
	}
	return nil
}

func (d *Dataset) kind() kind { return d.shards[0].kind }

// measure takes the shape and type of all arrays from the first.
func (d *Dataset) measure(ctx context.Context) error {
	var s loader.Sample
	if err := d.first(ctx, &s); err != nil {
		return err
	}
	h, err := npy.Parse(s.Raw)
	if err != nil {
		return d.blame("open data", 0, err)
	}
	d.array = h
	h.Info(&d.info)
	return nil
}

// first reads the first sample.
func (d *Dataset) first(ctx context.Context, s *loader.Sample) error {
	if !d.Compressed() {
		return d.Read(ctx, s)
	}
	c, err := Stream{d}.Open(ctx, 0)
	if err != nil {
		return err
	}
	return errors.Join(c.Next(ctx, s), c.Close())
}

// Compressed reports whether the shards are compressed.
func (d *Dataset) Compressed() bool { return compressed(d.shards[0].name) }

// Streams reports whether the shards are read as a Stream. Compressed shards can only be read
// so. In a store, each sample would otherwise be a request.
func (d *Dataset) Streams() bool { return d.Compressed() || source.Remote(d.info.Path) }

// Stored returns how many bytes the shards have on the disk.
func (d *Dataset) Stored() (bytes int64) {
	for i := range d.shards {
		bytes += d.shards[i].entry.Size
	}
	return bytes
}

// Info describes the split.
func (d *Dataset) Info() loader.Info { return d.info }

// Arrays returns the header of the samples if they are arrays; false means images.
func (d *Dataset) Arrays() (npy.Header, bool) { return d.array, d.kind() == arrays }

// Contents says what the shards hold, and how many there are: "images in 12 shards".
func (d *Dataset) Contents() string {
	what, shards := d.kind().String(), "shards"
	if d.kind() == arrays {
		what = d.array.Contents() + ","
	}
	if len(d.shards) == 1 {
		shards = "shard"
	}
	if d.Compressed() {
		shards = "compressed " + shards
	}
	return fmt.Sprintf("%s in %d %s", what, len(d.shards), shards)
}

// Grouping returns the shards as groups.
func (d *Dataset) Grouping() loader.Grouping {
	return loader.Grouping{Starts: d.starts}
}

// find returns the shard of a sample, and its place in it.
func (d *Dataset) find(index int) (shard, i int) {
	g := d.Grouping()
	shard = g.Group(index)
	return shard, index - int(d.starts[shard])
}

// Locate returns the shard of a sample and its key: "shard-000003.tar#n01440764/17".
func (d *Dataset) Locate(index int) string {
	if index < 0 || index >= d.info.Samples {
		return ""
	}
	shard, i := d.find(index)
	return d.shards[shard].name + "#" + d.shards[shard].key(i)
}

// Read fetches the image or array of sample s.Index into s.Raw and sets s.Label, which is 0
// without classes.
func (d *Dataset) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index < 0 || s.Index >= d.info.Samples {
		return fmt.Errorf("shards: read sample %d: %s has samples 0 to %d", s.Index, d.info.Path, d.info.Samples-1)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at, i := d.find(s.Index)
	sh := &d.shards[at]
	e := &sh.entries[i]
	h, err := d.files.take(at, func() (source.File, error) { return d.reopen(ctx, sh) })
	if err != nil {
		return err
	}
	defer d.files.give(h)
	n := int(e.size)
	if cap(s.Raw) < n {
		s.Raw = make([]byte, n+n/4)
	}
	s.Raw = s.Raw[:n]
	got, waited, err := h.file.ReadAt(ctx, s.Raw, e.off)
	s.FirstByte += waited
	if got < n {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return d.blame("read", s.Index, errs.Reason(fmt.Sprintf("%v after %d of %d bytes", err, got, n), errs.Hint(err, hintShard)).Because(err))
	}
	if e.sum != 0 && crc32.Checksum(s.Raw, castagnoli) != e.sum {
		return d.blame("read", s.Index, errSum(n))
	}
	s.Label = max(e.label, 0)
	return nil
}

// errSum returns the error of a sample of n bytes with a wrong checksum.
func errSum(n int) error {
	return errs.Reason(fmt.Sprintf("its %d bytes do not have the checksum that was written: they are damaged", n), hintShard).Because(loader.ErrDamaged)
}

// reopen opens a shard and refuses it if it has changed since the walk.
func (d *Dataset) reopen(ctx context.Context, s *shard) (source.File, error) {
	path := source.Join(d.info.Path, s.name)
	f, err := d.from.Known(ctx, path, s.entry)
	if err != nil {
		return nil, errs.File(err, "read", path, "put it back, or start again if the folder has changed")
	}
	if e := f.Entry(); e.Size != s.entry.Size || e.Stamp() != s.entry.Stamp() {
		_ = f.Close() // it was only read
		return nil, errs.New("read", path, source.ErrChanged.Error(), "start again")
	}
	return f, nil
}

// blame returns an error of a sample, which names shard, key and place.
func (d *Dataset) blame(op string, index int, err error) error {
	at, i := d.find(index)
	s := &d.shards[at]
	why := errs.Explain(err)
	return errs.New(op, source.Join(d.info.Path, s.name), fmt.Sprintf("sample %s at byte %d: %s", errs.Path(s.key(i)), s.entries[i].off, why.Reason),
		cmp.Or(why.Hint, hintShard)).Because(err)
}

// Decode turns the image in s.Raw into RGB pixels, or makes s.Pixels the array in it.
func (d *Dataset) Decode(s *loader.Sample) error {
	if d.kind() == arrays {
		if err := npy.Decode(s, &d.array); err != nil {
			return d.blame("decode", s.Index, err)
		}
		return nil
	}
	if err := codec.Decode(s); err != nil {
		return d.blame("decode", s.Index, errs.Reason(err.Error(), codec.Hint(err)).Because(err))
	}
	return nil
}

// Close closes the shards.
func (d *Dataset) Close() error {
	d.files.close()
	return nil
}

var (
	_ loader.Dataset = (*Dataset)(nil)
	_ loader.Locator = (*Dataset)(nil)
	_ loader.Grouped = (*Dataset)(nil)
)
