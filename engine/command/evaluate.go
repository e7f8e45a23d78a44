package command

import (
	"context"
	"errors"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/train"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/source"
)

// openTest opens the test split beside the training data, where there is one that the model
// can be evaluated on.
func (o *options) openTest(ctx context.Context, d *opened, files *source.Files, training loader.Info, progress progressFunc) (t train.Test, err error) {
	if d.fixed() && o.data == "" || !d.dev.Info().Computes {
		return t, nil
	}
	path := o.data
	if path == "" {
		if path, err = defaultData(ctx, progress); err != nil {
			return t, err
		}
	}
	options := format.Options{Files: files}
	if checkHome("indexes of shards", cacheVariable, "") == nil {
		options.Cache = cacheDir()
	}
	o.images.to(&options)
	ds, tf, err := format.OpenTest(ctx, path, options)
	switch {
	case errors.Is(err, format.ErrUnknown):
		return t, nil // it has none
	case err != nil:
		return t, errs.Wrap(err, "open the test split of", path, "repair it, or leave it out with --evaluate=off")
	}
	info := loader.InfoOf(ds, tf)
	if !slices.Equal(info.Classes, training.Classes) || info.H != training.H || info.W != training.W || info.C != training.C {
		return t, errors.Join(ds.Close(), errs.New("evaluate on the test split of", path, "its classes or its images are not those of the training split", "repair it, or leave it out with --evaluate=off"))
	}
	return train.Test{Dataset: ds, Transform: tf, Epochs: true}, nil
}

func (r *run) closeTest() error {
	if r.test.Dataset == nil {
		return nil
	}
	return r.test.Dataset.Close()
}
