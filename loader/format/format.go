// Package format opens a data set of any form that the loader reads.
package format

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"dev.gpustall/engine/fault"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format/cifar"
	"dev.gpustall/loader/format/imagefolder"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/transform"
)

// ErrUnknown is wrapped by Open's error when a path holds no known form of data.
var ErrUnknown = errors.New("no data set of a known form")

// kind is one form: how its splits are opened and what makes samples of it.
type kind struct {
	open, test  func(path string) (loader.Dataset, error)
	train, eval loader.Transform
	not         error // what open's error wraps when the path holds something else
}

func kinds() []kind {
	return []kind{
		{widen(cifar.Open), widen(cifar.OpenTest), transform.CIFARTrain(), transform.CIFAREval(), cifar.ErrNotCIFAR},
		{widen(records.Open), nil, records.Transform{}, nil, records.ErrNotRecords},
		{widen(imagefolder.Open), widen(imagefolder.OpenTest), transform.ImageNetTrain(imagefolder.Size), transform.ImageNetEval(imagefolder.Size), imagefolder.ErrNotFolder},
	}
}

// widen spares the interface a typed nil.
func widen[D loader.Dataset](open func(string) (D, error)) func(string) (loader.Dataset, error) {
	return func(path string) (loader.Dataset, error) {
		d, err := open(path)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}

// Open finds out what path is and opens its training split, with the transform
// that people train with on such data. The error of a damaged data set is its
// format's; that of something else says what was looked for.
func Open(path string) (loader.Dataset, loader.Transform, error) {
	return open(path, func(k kind) (func(string) (loader.Dataset, error), loader.Transform) { return k.open, k.train })
}

// OpenTest opens the evaluation split, with the transform without randomness.
func OpenTest(path string) (loader.Dataset, loader.Transform, error) {
	return open(path, func(k kind) (func(string) (loader.Dataset, error), loader.Transform) { return k.test, k.eval })
}

func open(path string, of func(kind) (func(string) (loader.Dataset, error), loader.Transform)) (loader.Dataset, loader.Transform, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New("open data", path, "there is no such file or folder", "check the path, or make a data set with gpustall data make").Because(err)
	}
	if err != nil {
		return nil, nil, fault.File(err, "open data", path, "check the path")
	}
	// What cannot be looked into is not yet something else.
	if err := readable(path, st.IsDir()); err != nil {
		return nil, nil, fault.File(err, "open data", path, "check the disk")
	}
	for _, k := range kinds() {
		open, t := of(k)
		if open == nil {
			continue
		}
		d, err := open(path)
		if err == nil {
			return d, t, nil
		}
		if !errors.Is(err, k.not) {
			return nil, nil, err
		}
		if !st.IsDir() {
			break // only CIFAR-10 comes as a file
		}
	}
	return nil, nil, fault.New("open data", path,
		fmt.Sprintf("%v: looked for CIFAR-10 (a folder of data_batch files, or its tar.gz), for records (a folder of %s files) and for an image folder (a folder for each class with images)", ErrUnknown, records.Ext),
		"name one of those, or make one with gpustall data make").Because(ErrUnknown)
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
