// Package imagefolder reads a folder of images with a folder for each class, as torchvision's
// ImageFolder does: root/class/…/image.jpg. If root holds the splits train and val (or valid,
// or test), those hold the classes. A file counts if it has one of torchvision's extensions:
// .jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp. Its first bytes say what it is.
//
// If the class folders hold .npy arrays and no image, the samples are arrays (package npy). A
// folder that itself holds .npy files is a set of arrays without classes.
//
// Package codec decodes the images. A file that cannot be read or decoded is an error
// when its turn comes, as it is in PyTorch; the error names the file.
package imagefolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/codec"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/synth/marker"
)

// Formats, as in loader.Info.
const (
	Format       = "imagefolder"
	FormatArrays = "npy-folder"
)

// Size is the side of a sample after the usual transform.
const Size = 224

// maxFile bounds what Read takes in.
const maxFile = 1 << 30

// ErrNotFolder is what Open's error wraps if the path has no class folders.
var ErrNotFolder = errors.New("no folders of images here")

// Dataset is an image folder. It is safe for concurrent use.
type Dataset struct {
	info  loader.Info
	from  *source.Files
	files []file

	arrays bool       // the files are .npy
	array  npy.Header // of the first one
}

type file struct {
	path  string // relative to Info.Path
	class int32
	entry *source.Entry // of an object; nil of a file
}

// Open lists the training split at a path of this machine.
func Open(path string) (*Dataset, error) { return OpenIn(context.Background(), nil, path) }

// OpenTest lists the evaluation split at a path of this machine.
func OpenTest(path string) (*Dataset, error) { return OpenTestIn(context.Background(), nil, path) }

// OpenIn lists the training split at path, wherever that is.
func OpenIn(ctx context.Context, from *source.Files, path string) (*Dataset, error) {
	return open(ctx, from, path, "train")
}

// OpenTestIn lists the evaluation split at path: its folder val, valid or test.
func OpenTestIn(ctx context.Context, from *source.Files, path string) (*Dataset, error) {
	return open(ctx, from, path, "val", "valid", "test")
}

func open(ctx context.Context, from *source.Files, path string, splits ...string) (*Dataset, error) {
	if _, err := from.Stat(ctx, path); errors.Is(err, os.ErrNotExist) {
		return nil, errs.New("open data", path, "there is no such folder", "check the path").Because(err)
	} else if err != nil {
		return nil, errs.File(err, "open data", path, "check the path")
	}
	root := path
	for _, s := range splits {
		if dir := source.Join(path, s); from.IsDir(ctx, dir) {
			root = dir
			break
		}
	}
	if root == path && splits[0] != "train" {
		return nil, errs.New("open data", path, fmt.Sprintf("%v: it has no folder val, valid or test", ErrNotFolder), "make one with a folder for each class").Because(ErrNotFolder)
	}
	d := &Dataset{from: from}
	var classes []string
	var err error
	if source.Remote(root) {
		classes, err = d.listStore(ctx, root)
	} else {
		classes, err = d.list(root)
	}
	if err != nil {
		return nil, err
	}
	d.info = loader.Info{Name: source.Name(path), Format: Format, Path: root, Samples: len(d.files), Classes: classes, H: Size, W: Size, C: 3}
	for _, dir := range []string{root, path} {
		mark, err := marker.In(ctx, from, dir)
		if err != nil {
			return nil, errs.File(err, "open data", source.Join(dir, marker.File), "check the path")
		}
		d.info.Synthetic = d.info.Synthetic || mark != nil
	}
	if d.arrays {
		d.info.Format = FormatArrays
		if err := d.measure(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// measure takes shape and type of all arrays from the first.
func (d *Dataset) measure(ctx context.Context) error {
	var s loader.Sample
	if err := d.Read(ctx, &s); err != nil {
		return err
	}
	var err error
	if d.array, err = npy.Parse(s.Raw); err != nil {
		return errs.Wrap(err, "open data", d.Path(0), "")
	}
	d.array.Info(&d.info)
	return nil
}

// Arrays returns the header of the samples where they are arrays, and false where they are images.
func (d *Dataset) Arrays() (npy.Header, bool) { return d.array, d.arrays }

// Contents says what the files hold if they are not images.
func (d *Dataset) Contents() string {
	if !d.arrays {
		return ""
	}
	return d.array.Contents()
}

// Info describes the folder. Bytes is 0, because finding it out would cost a system
// call a file.
func (d *Dataset) Info() loader.Info { return d.info }

// Path returns the file of a sample.
func (d *Dataset) Path(index int) string {
	return source.Join(d.info.Path, d.files[index].path)
}

// Locate returns the file of a sample, below Info.Path.
func (d *Dataset) Locate(index int) string {
	if index < 0 || index >= len(d.files) {
		return ""
	}
	return d.files[index].path
}

// Read fetches the file of sample s.Index into s.Raw and sets s.Label.
func (d *Dataset) Read(ctx context.Context, s *loader.Sample) error {
	if s.Index < 0 || s.Index >= len(d.files) {
		return fmt.Errorf("imagefolder: read sample %d: %s has samples 0 to %d", s.Index, d.info.Path, len(d.files)-1)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	path := d.Path(s.Index)
	f, err := d.open(ctx, &d.files[s.Index], path)
	if err != nil {
		return errs.File(err, "read", path, "put it back, or start again if the folder has changed")
	}
	defer f.Close()
	size := f.Entry().Size
	if size > maxFile {
		return errs.New("read", path, fmt.Sprintf("%d bytes, more than the %d that an image may have", size, maxFile), "remove it from the folder")
	}
	n := int(size)
	if cap(s.Raw) < n {
		s.Raw = make([]byte, n+n/4)
	}
	s.Raw = s.Raw[:n]
	got, waited, err := f.ReadAt(ctx, s.Raw, 0)
	s.FirstByte += waited
	if got < n {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return errs.New("read", path, fmt.Sprintf("%s after %d of %d bytes", errs.Explain(err).Reason, got, n), errs.Hint(err, "wait until it is written: it shrank while it was read")).Because(err)
	}
	s.Label = d.files[s.Index].class
	return nil
}

// Announce asks the system to bring the file of a sample into memory.
func (d *Dataset) Announce(index int) { source.Announce(d.Path(index)) }

func (d *Dataset) open(ctx context.Context, f *file, path string) (source.File, error) {
	if f.entry != nil {
		return d.from.Known(ctx, path, *f.entry)
	}
	return d.from.Open(ctx, path)
}

// Decode turns the image in s.Raw into RGB pixels, or finds the array in it.
func (d *Dataset) Decode(s *loader.Sample) error {
	if d.arrays {
		return errs.Wrap(npy.Decode(s, &d.array), "decode", d.Path(s.Index), "")
	}
	if err := codec.Decode(s); err != nil {
		return errs.New("decode", d.Path(s.Index), err.Error(), codec.Hint(err)).Because(err)
	}
	return nil
}

// Close has nothing to give back.
func (d *Dataset) Close() error { return nil }
