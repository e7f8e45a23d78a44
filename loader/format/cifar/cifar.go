// Package cifar reads CIFAR-10 and CIFAR-100 (A. Krizhevsky, "Learning Multiple Layers of
// Features from Tiny Images", 2009). It takes a folder of the binary version, a folder of the
// Python version (as torchvision leaves it), and the original tar.gz of each. The format is
// described at https://www.cs.toronto.edu/~kriz/cifar.html. An image of CIFAR-100 has two
// classes; the fine one is used.
//
// Read copies one sample's planes. In a folder of the binary version they come from a map of
// the file, which the system's page cache keeps as long as there is room. For all other
// forms the samples are unpacked into memory (154 MB for training). Decode turns the planes
// (CHW) into pixels (HWC).
package cifar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/filemap"
	"dev.gpustall/loader/synth/marker"
	"dev.gpustall/loader/transform"
)

// Geometry of a sample.
const (
	Side     = 32
	Channels = 3
	plane    = Side * Side
	Pixels   = plane * Channels // bytes of an image
	Record   = 1 + Pixels       // bytes of a record in CIFAR-10's binary version
	Classes  = 10               // of CIFAR-10
	Batches  = 5                // its training files
)

// Formats, as in loader.Info.
const (
	FormatBinary = "cifar10-binary"
	FormatPython = "cifar10-python"
)

// Names of the folders and archives as published.
const (
	DirBinary     = "cifar-10-batches-bin"
	DirPython     = "cifar-10-batches-py"
	ArchiveBinary = "cifar-10-binary.tar.gz"
	ArchivePython = "cifar-10-python.tar.gz"
)

// ErrNotCIFAR is what Open's error wraps if the path holds neither data set in any form.
var ErrNotCIFAR = errors.New("no CIFAR-10 and no CIFAR-100 here")

// classNames are the names in batches.meta, for data without that file.
var classNames = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// Dataset is one split. It is safe for concurrent use.
type Dataset struct {
	info   loader.Info
	parts  []part
	starts []int // index of each part's first sample
}

// part is one file's samples: label and planes of each, stride bytes apart.
type part struct {
	file   string
	n      int
	labels []byte      // one per sample
	planes io.ReaderAt // n times Pixels, at stride; also an io.Closer if it is a file
	off    int         // of the first sample's planes in planes
	stride int
}

func (p *part) close() error {
	if f, ok := p.planes.(io.Closer); ok {
		return f.Close()
	}
	return nil
}

// Open reads the training split at path: a folder of either version, a tar.gz of
// either version, or a folder that holds one of those.
func Open(path string) (*Dataset, error) { return open(path, false) }

// OpenTest reads the test split at path.
func OpenTest(path string) (*Dataset, error) { return open(path, true) }

func open(path string, test bool) (d *Dataset, err error) {
	src, err := detect(path)
	if err != nil {
		return nil, err
	}
	v := src.v
	want := v.train
	if test {
		want = v.test
	}
	found, err := src.load(want, v.names)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(found)
		}
	}()
	d = &Dataset{}
	names := v.defaults()
	if b, ok := found[v.names]; ok && b.names != nil {
		names = b.names
	}
	for _, f := range want {
		b, ok := found[f]
		if !ok {
			return nil, errs.New("open data", src.path, fmt.Sprintf("the file %s is missing, so the data set is incomplete", f), hint)
		}
		if err := b.check(len(names)); err != nil {
			return nil, errs.Wrap(err, "read", f+" in "+src.path, "")
		}
		d.starts = append(d.starts, d.info.Samples)
		d.parts = append(d.parts, b.part)
		d.info.Samples += b.n
		if m, ok := b.planes.(*filemap.File); ok {
			d.info.Mapped += m.Resident()
		}
	}
	var m *marker.Marker
	if src.dir != "" {
		m = marker.Read(src.dir)
	}
	if err := d.checkCounts(src.path, m, test); err != nil {
		return nil, err
	}
	d.info.Name, d.info.Format, d.info.Path = v.name, v.format, src.path
	d.info.Classes = names
	d.info.H, d.info.W, d.info.C = Side, Side, Channels
	d.info.Bytes = int64(d.info.Samples) * int64(max(v.labels, 1)+Pixels)
	if d.info.Synthetic = m != nil; d.info.Synthetic {
		d.info.Name = "synthetic " + v.name
	}
	return d, nil
}

// checkCounts refuses files that were cut off exactly between two records. The published
// training files all hold the same number of samples. Generated ones hold as many as their
// marker says.
func (d *Dataset) checkCounts(path string, m *marker.Marker, test bool) error {
	if m != nil {
		want := m.Samples
		if test {
			want = m.Test
		}
		if want > 0 && want != d.info.Samples {
			return errs.New("open data", path, fmt.Sprintf("%d samples where %s promises %d, so files are truncated or missing",
				d.info.Samples, marker.File, want), "make the data again")
		}
		return nil
	}
	most := 0
	for i, p := range d.parts {
		if p.n > d.parts[most].n {
			most = i
		}
	}
	for _, p := range d.parts {
		if p.n != d.parts[most].n {
			return errs.New("read", filepath.Join(path, p.file), fmt.Sprintf("%d samples where %s has %d, so it looks truncated",
				p.n, d.parts[most].file, d.parts[most].n), hint)
		}
	}
	return nil
}

// Info describes the split.
func (d *Dataset) Info() loader.Info { return d.info }

// Read copies the planes of sample s.Index, 3072 bytes, into s.Raw and sets s.Label.
func (d *Dataset) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index < 0 || s.Index >= d.info.Samples {
		return fmt.Errorf("cifar: read sample %d: %s has samples 0 to %d", s.Index, d.info.Path, d.info.Samples-1)
	}
	part, i := d.find(s.Index)
	if cap(s.Raw) < Pixels {
		s.Raw = make([]byte, Pixels)
	}
	s.Raw = s.Raw[:Pixels]
	if _, err := part.planes.ReadAt(s.Raw, int64(part.off+i*part.stride)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return errs.New("read", filepath.Join(d.info.Path, part.file), fmt.Sprintf("%v in its sample %d", err, i),
			errs.Hint(err, "put it back as it was: it shrank since it was opened")).Because(err)
	}
	s.Label = int32(part.labels[i])
	return nil
}

// find returns the file of a sample, and its place in it.
func (d *Dataset) find(index int) (*part, int) {
	p := len(d.starts) - 1
	for d.starts[p] > index {
		p--
	}
	return &d.parts[p], index - d.starts[p]
}

// Locate returns the file of a sample and its place in it, from 0: "data_batch_3.bin#17".
func (d *Dataset) Locate(index int) string {
	if index < 0 || index >= d.info.Samples {
		return ""
	}
	part, i := d.find(index)
	return fmt.Sprintf("%s#%d", part.file, i)
}

// Stored returns a sample's planes in the map of their file, or nil if the file is not mapped.
func (d *Dataset) Stored(index int) []byte {
	part, i := d.find(index)
	if m, ok := part.planes.(*filemap.File); ok {
		return m.Mapped(int64(part.off+i*part.stride), Pixels)
	}
	return nil
}

// Decode turns the planes in s.Raw into 32x32x3 interleaved pixels in s.Pixels. For a transform
// that takes planes it leaves them as they are.
func (d *Dataset) Decode(s *loader.Sample) error {
	if len(s.Raw) != Pixels {
		return fmt.Errorf("cifar: decode sample %d: %d bytes instead of %d: Read it first", s.Index, len(s.Raw), Pixels)
	}
	s.H, s.W, s.C, s.Planes = Side, Side, Channels, nil
	if s.TakesPlanes() {
		s.Planes = s.Raw
		return nil
	}
	if cap(s.Pixels) < Pixels {
		s.Pixels = make([]byte, Pixels)
	}
	s.Pixels = s.Pixels[:Pixels]
	transform.Interleave(s.Pixels, s.Raw)
	return nil
}

// Close closes the files.
func (d *Dataset) Close() error {
	var errs []error
	for i := range d.parts {
		errs = append(errs, d.parts[i].close())
	}
	d.parts, d.starts, d.info.Samples = nil, nil, 0
	return errors.Join(errs...)
}
