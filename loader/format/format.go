// Package format opens a data set of any form that the loader reads.
package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format/cifar"
	"dev.gpustall/loader/format/imagefolder"
	"dev.gpustall/loader/format/mapped"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/format/shards"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/transform"
)

// ErrUnknown is what Open's error wraps if a path holds no known form of data.
var ErrUnknown = errors.New("no data set of a known form")

// Options of opening.
type Options struct {
	Files    *source.Files         // where data is read; may be nil
	Cache    string                // a folder to keep indexes of shards in; empty: none are kept
	Progress func(done, total int) // shards walked so far, if the data is shards; may be nil

	Transform string // of images, in transform's language; empty: the usual one
	Where     string // which samples of shards, in where's language; empty: all
	Size      int    // of images after the usual transform: height and width; 0: the usual size
}

// opener opens one split of one form, and returns the transform for it.
type opener func(ctx context.Context, path string, o Options) (loader.Dataset, loader.Transform, error)

// kind is one form of data set: how its splits are opened.
type kind struct {
	train, eval opener // eval is nil where the form has none
	not         error  // what the openers' errors wrap if the path holds something else
	file        bool   // it may be a single file
	remote      bool   // it may lie in a store
}

// The forms' images before the transform.
var (
	cifarImages = transform.Input{H: cifar.Side, W: cifar.Side, Constants: transform.CIFAR}
	anyImages   = transform.Input{Constants: transform.ImageNet}
)

func kinds() []kind {
	return []kind{
		{plain(cifar.Open, cifarImages, false), plain(cifar.OpenTest, cifarImages, true), cifar.ErrNotCIFAR, true, false},
		{sharded(shards.Open, false), sharded(shards.OpenTest, true), shards.ErrNotShards, true, true},
		{plain(mapped.Open, anyImages, false), plain(mapped.OpenTest, anyImages, true), mapped.ErrNotMapped, true, false},
		{plain(records.Open, transform.Input{}, false), nil, records.ErrNotRecords, false, false},
		{foldered(imagefolder.OpenIn, false), foldered(imagefolder.OpenTestIn, true), imagefolder.ErrNotFolder, false, true},
	}
}

// plain returns the opener of a form that needs only a path.
func plain[D loader.Dataset](open func(string) (D, error), in transform.Input, eval bool) opener {
	return func(_ context.Context, path string, o Options) (loader.Dataset, loader.Transform, error) {
		d, err := open(path)
		if err != nil {
			return nil, nil, err
		}
		if strings.HasPrefix(d.Info().Format, cifar.Format100) {
			in.Constants = transform.CIFAR100
		}
		return fitting(d, d, in, eval, o)
	}
}

// foldered returns the opener of images, or arrays, by class, which may lie in a store.
func foldered[D loader.Dataset](open func(context.Context, *source.Files, string) (D, error), eval bool) opener {
	return func(ctx context.Context, path string, o Options) (loader.Dataset, loader.Transform, error) {
		return plain(func(path string) (D, error) { return open(ctx, o.Files, path) }, anyImages, eval)(ctx, path, o)
	}
}

// fitting returns a data set with the transform for what it holds: images, arrays or records.
// It closes the data set if there is no such transform.
func fitting[D loader.Dataset](d D, holds loader.Dataset, in transform.Input, eval bool, o Options) (loader.Dataset, loader.Transform, error) {
	var other loader.Transform
	what := ""
	if a, ok := holds.(interface{ Arrays() (npy.Header, bool) }); ok {
		if h, ok := a.Arrays(); ok {
			other, what = npy.Transform{Type: h.Type}, "arrays"
		}
	}
	if _, ok := holds.(*records.Dataset); ok {
		other, what = records.Transform{}, "records"
	}
	var err error
	_, table := holds.(*shards.Dataset)
	switch {
	case o.Where != "" && !table:
		err = errs.New("choose samples of", errs.Path(d.Info().Path), "it has no "+shards.Metadata+", in which a condition looks", "pack the data into shards with gpustall data pack")
	case other == nil:
		t, cerr := imageTransform(in, eval, o)
		if cerr == nil {
			return d, t, nil
		}
		err = cerr
	case o.Transform != "" || o.Size > 0:
		err = errs.New("transform", errs.Path(d.Info().Path), "it holds "+what+", and transforms are for images", "leave --transform and --image-size out")
	default:
		return d, other, nil
	}
	return nil, nil, errors.Join(err, d.Close())
}

// imageTransform returns the transform that the options ask for.
func imageTransform(in transform.Input, eval bool, o Options) (*transform.Pipeline, error) {
	text := o.Transform
	if text == "" {
		text = transform.Train(in, o.Size)
	}
	t, err := transform.Compile(text, in)
	if err != nil || !eval {
		return t, err
	}
	return t.Test()
}

// sharded returns the opener of shards, of images or of arrays.
func sharded(open func(context.Context, string, shards.Options) (*shards.Dataset, error), eval bool) opener {
	return func(ctx context.Context, path string, o Options) (loader.Dataset, loader.Transform, error) {
		d, err := open(ctx, path, shards.Options{Files: o.Files, Cache: o.Cache, Progress: o.Progress, Where: o.Where})
		if err != nil {
			return nil, nil, err
		}
		if d.Streams() {
			return fitting(loader.FromStream(shards.Stream{Dataset: d}), d, anyImages, eval, o)
		}
		return fitting(d, d, anyImages, eval, o)
	}
}

// Open finds out what path holds and opens its training split, with the transform that people
// usually train with on such data. If the data is damaged, the error is the format's. If the
// path holds something else, the error says what was looked for.
func Open(ctx context.Context, path string, o Options) (loader.Dataset, loader.Transform, error) {
	return open(ctx, path, o, func(k kind) opener { return k.train })
}

// OpenTest opens the evaluation split, with a transform without randomness.
func OpenTest(ctx context.Context, path string, o Options) (loader.Dataset, loader.Transform, error) {
	return open(ctx, path, o, func(k kind) opener { return k.eval })
}

func open(ctx context.Context, path string, o Options, of func(kind) opener) (loader.Dataset, loader.Transform, error) {
	path, err := source.Clean(path)
	if err != nil {
		return nil, nil, err
	}
	st, err := o.Files.Stat(ctx, path)
	if errors.Is(err, fs.ErrNotExist) && !source.Remote(path) {
		return nil, nil, errs.New("open data", path, "there is no such file or folder", "check the path, or make a data set with gpustall data make").Because(err)
	}
	if err != nil {
		return nil, nil, errs.File(err, "open data", path, "check the path")
	}
	// A path that cannot be read may still be a data set.
	if !source.Remote(path) {
		if err := readable(path, st.Dir); err != nil {
			return nil, nil, errs.File(err, "open data", path, "check the disk")
		}
	}
	for _, k := range kinds() {
		open := of(k)
		if open == nil || !st.Dir && !k.file || source.Remote(path) && !k.remote {
			continue
		}
		d, t, err := open(ctx, path, o)
		if err == nil {
			return d, t, nil
		}
		if !errors.Is(err, k.not) {
			return nil, nil, err
		}
	}
	if st.Dir && !source.Remote(path) && isEmpty(path) {
		return nil, nil, errs.New("open data", path, "the folder is empty", "name one with data in it, or make one with gpustall data make").Because(ErrUnknown)
	}
	if name := shards.Unread(ctx, o.Files, path); name != "" {
		return nil, nil, errs.New("open data", path, fmt.Sprintf("%v: %s is compressed by a method that is not read", ErrUnknown, errs.Path(name)),
			"unpack it, or compress it with gzip or zstd").Because(ErrUnknown)
	}
	if source.Remote(path) {
		return nil, nil, errs.New("open data", path,
			fmt.Sprintf("%v: looked for shards (%s objects) and for an image folder (a folder for each class with images or .npy arrays), which are what is read from a store", ErrUnknown, shards.Ext),
			"name one of those, or pack one with gpustall data pack").Because(ErrUnknown)
	}
	return nil, nil, errs.New("open data", path,
		fmt.Sprintf("%v: looked for CIFAR-10 and CIFAR-100 (the folder of their files, or the tar.gz), for shards (a folder of %s files), for an array of samples (a .npy file, or a folder of one and %s), for records (a folder of %s files) and for an image folder (a folder for each class with images or .npy arrays)", ErrUnknown, shards.Ext, mapped.Labels, records.Ext),
		"name one of those, or make one with gpustall data make").Because(ErrUnknown)
}

// isEmpty reports whether a folder is empty.
func isEmpty(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	return len(names) == 0 && errors.Is(err, io.EOF)
}

// readable tries to open a file, or to list a folder and reach what is in it.
func readable(path string, dir bool) error {
	if !dir {
		f, _, err := loader.Open(path)
		if err != nil {
			return err
		}
		return f.Close()
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if err != nil || len(names) == 0 {
		if errors.Is(err, io.EOF) {
			return nil // empty
		}
		return err
	}
	_, err = os.Lstat(filepath.Join(path, names[0]))
	return err
}
