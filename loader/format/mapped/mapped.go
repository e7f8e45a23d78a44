// Package mapped serves the samples of one .npy file that holds them all, (N,C,T,H,W) or with
// fewer dimensions. Like numpy.load with mmap_mode, it maps the file into memory and copies a
// sample out of it, without a system call for each. Classes are in a file labels.npy beside it,
// whole numbers (N,).
//
// Read copies for two reasons. Waiting for the disk is then part of reading, not of decoding or
// transforming. And only Read has to handle a file that shrinks, which the system reports by a
// signal.
package mapped

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/filemap"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/synth/marker"
)

// Format, as in loader.Info.
const Format = "npy-mapped"

// Labels is the file of the classes.
const Labels = "labels" + ext

const ext = ".npy"

// maxLabel is the largest class.
const maxLabel = 1 << 20

// ErrNotMapped is what Open's error wraps if the path holds something else.
var ErrNotMapped = errors.New("no array of samples here")

const (
	hintPath   = "give a .npy file whose first dimension counts the samples, or a folder of one and " + Labels
	hintFile   = "write it again with numpy.save"
	hintLabels = "save a row of whole numbers, one for each sample"
)

// Dataset is one split of a mapped file. It is safe for concurrent use.
type Dataset struct {
	info   loader.Info
	path   string
	sample npy.Header // Start is where the first one begins
	labels []int32    // nil: there are no classes
	file   *filemap.File
}

// resident is about how many bytes of the samples stay in this process's memory.
const resident = 64 << 20

// Open opens the training split at path: a file, a folder of one and its labels, or a folder
// with a folder train of those.
func Open(path string) (*Dataset, error) { return open(path, "train") }

// OpenTest opens the evaluation split at path: its folder val, valid or test.
func OpenTest(path string) (*Dataset, error) { return open(path, "val", "valid", "test") }

func open(path string, splits ...string) (d *Dataset, err error) {
	d = &Dataset{}
	labels := ""
	if d.path, labels, err = find(path, splits); err != nil {
		return nil, err
	}
	f, st, err := loader.Open(d.path)
	if err != nil {
		return nil, errs.File(err, "open data", d.path, hintPath)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // it was only read
		}
	}()
	head, err := beginning(f)
	if err != nil {
		return nil, errs.File(err, "read", d.path, hintFile)
	}
	n := 0
	if d.sample, n, err = npy.ParseStack(head); err == nil {
		err = npy.CheckStack(&d.sample, n, st.Size())
	}
	if err != nil {
		return nil, errs.Wrap(err, "open data", d.path, "")
	}
	if labels != "" {
		if d.labels, err = readLabels(labels, n); err != nil {
			return nil, err
		}
	}
	root := filepath.Dir(d.path)
	d.info = loader.Info{Name: filepath.Base(path), Format: Format, Path: root, Samples: n, Bytes: int64(n) * int64(d.sample.Bytes)}
	if labels == "" {
		d.info.Path = d.path
	}
	d.sample.Info(&d.info)
	for c := range classes(d.labels) {
		d.info.Classes = append(d.info.Classes, strconv.Itoa(c))
	}
	d.info.Synthetic = marker.Read(root) != nil
	d.file = filemap.New(f, st.Size(), resident)
	d.info.Mapped = d.file.Resident()
	return d, nil
}

// find returns the file of the samples, and the file of the labels if there is one.
func find(path string, splits []string) (file, labels string, err error) {
	not := errs.New("open data", path, ErrNotMapped.Error(), hintPath).Because(ErrNotMapped)
	st, err := os.Stat(path)
	if err != nil {
		return "", "", errs.File(err, "open data", path, "check the path")
	}
	if !st.IsDir() {
		if strings.ToLower(filepath.Ext(path)) != ext || splits[0] != "train" {
			return "", "", not
		}
		if beside := filepath.Join(filepath.Dir(path), Labels); isFile(beside) && filepath.Base(path) != Labels {
			labels = beside
		}
		return path, labels, nil
	}
	root := path
	for _, s := range splits {
		if st, err := os.Stat(filepath.Join(path, s)); err == nil && st.IsDir() {
			root = filepath.Join(path, s)
			break
		}
	}
	if labels = filepath.Join(root, Labels); root == path && splits[0] != "train" || !isFile(labels) {
		return "", "", not
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", "", errs.File(err, "open data", root, hintPath)
	}
	for _, e := range entries {
		if e.Name() == Labels || e.IsDir() || strings.ToLower(filepath.Ext(e.Name())) != ext {
			continue
		}
		if file != "" { // a folder of arrays, one of which is called labels
			return "", "", not
		}
		file = filepath.Join(root, e.Name())
	}
	if file == "" {
		return "", "", not
	}
	return file, labels, nil
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

// beginning reads as much of a file as a header may have.
func beginning(f *os.File) ([]byte, error) {
	b := make([]byte, npy.MaxStart)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// readLabels reads the classes of n samples.
func readLabels(path string, n int) ([]int32, error) {
	f, st, err := loader.Open(path)
	if err != nil {
		return nil, errs.File(err, "read", path, hintLabels)
	}
	defer f.Close()
	head, err := beginning(f)
	if err != nil {
		return nil, errs.File(err, "read", path, hintLabels)
	}
	h, err := npy.ParseNumbers(head)
	if err != nil {
		return nil, errs.Wrap(err, "read", path, hintLabels)
	}
	if h.N != n {
		return nil, errs.New("read", path, fmt.Sprintf("it has %d classes, and there are %d samples", h.N, n), hintLabels)
	}
	if want := int64(h.Start) + int64(n)*int64(h.Size); st.Size() != want {
		return nil, errs.New("read", path, fmt.Sprintf("it has %d bytes where its %d numbers end at %d", st.Size(), n, want), hintFile)
	}
	out := make([]int32, n)
	r := bufio.NewReaderSize(io.NewSectionReader(f, int64(h.Start), st.Size()), 1<<20)
	b := make([]byte, h.Size)
	for i := range out {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, errs.File(err, "read", path, hintLabels)
		}
		v, ok := h.Value(b)
		if !ok || v < 0 || v > maxLabel {
			return nil, errs.New("read", path, fmt.Sprintf("the class of sample %d is %d, not one of 0 to %d", i, v, maxLabel), hintLabels)
		}
		out[i] = int32(v)
	}
	return out, nil
}

// classes returns how many classes there are.
func classes(labels []int32) (n int) {
	for _, l := range labels {
		n = max(n, int(l)+1)
	}
	return n
}

// Info describes the split.
func (d *Dataset) Info() loader.Info { return d.info }

// Arrays returns the header of each sample.
func (d *Dataset) Arrays() (npy.Header, bool) { return d.sample, true }

// Contents says what the file holds.
func (d *Dataset) Contents() string { return d.sample.Contents() + ", in one file" }

// Locate returns the place of a sample as NumPy writes it: "x.npy[17]".
func (d *Dataset) Locate(index int) string {
	if index < 0 || index >= d.info.Samples {
		return ""
	}
	return fmt.Sprintf("%s[%d]", filepath.Base(d.path), index)
}

// Read copies sample s.Index into s.Raw and sets s.Label, 0 where there are no classes.
func (d *Dataset) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index < 0 || s.Index >= d.info.Samples {
		return fmt.Errorf("mapped: read sample %d: %s has samples 0 to %d", s.Index, d.path, d.info.Samples-1)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n := d.sample.Bytes
	if cap(s.Raw) < n {
		s.Raw = make([]byte, n)
	}
	s.Raw = s.Raw[:n]
	from := int64(d.sample.Start) + int64(s.Index)*int64(n)
	if _, err := d.file.ReadAt(s.Raw, from); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return err
		}
		if size, serr := d.file.Size(); serr == nil && size < from+int64(n) {
			return errs.New("read", d.path, fmt.Sprintf("sample %d ends at byte %d, and the file has only %d by now: it shrank", s.Index, from+int64(n), size),
				"start again when it is whole")
		}
		return errs.New("read", d.path, fmt.Sprintf("sample %d at byte %d: %v", s.Index, from, err), "check the disk").Because(err)
	}
	if s.Label = 0; d.labels != nil {
		s.Label = d.labels[s.Index]
	}
	return nil
}

// Decode only says what s.Raw is.
func (d *Dataset) Decode(s *loader.Sample) error {
	s.Pixels = s.Raw
	s.C, s.T, s.H, s.W = d.sample.Shape.CTHW()
	return nil
}

// Close unmaps the file.
func (d *Dataset) Close() error { return d.file.Close() }

var (
	_ loader.Dataset = (*Dataset)(nil)
	_ loader.Locator = (*Dataset)(nil)
)
