package command

import (
	"context"
	"errors"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/source"
)

// openModel builds the network, or the fixed step of a modelled workload.
func (o *options) openModel(d *opened, info loader.Info) (*nn.Model, func(int) device.Operation, error) {
	if d.fixed() {
		for _, s := range o.modelFlags.settings() {
			flag := "--" + flagName(s.Name)
			return nil, nil, refuse(flag+" "+s.Value, "emu:"+d.preset.Name+" brings its own workload", "leave "+flag+" out")
		}
		return nil, d.preset.Workload.Step, nil
	}
	name := o.model
	if name == "" {
		switch {
		case info.T > 0:
			name = "cnn3d"
		case d.dev.Info().Kind == "cpu":
			name = "cnn"
		default:
			name = "resnet18"
		}
	}
	m, err := nn.Spec{Name: name, In: nn.Shape{H: info.H, W: info.W, C: info.C, T: info.T}, Classes: len(info.Classes),
		Stem: o.stem, NoBatchNorm: bool(o.noBatchNorm)}.Model()
	if why := errs.Explain(err); err != nil && info.Doubt != "" && info.C > nn.MaxChannels {
		err = errs.New(why.Op, why.Object, why.Reason, info.Doubt).Because(err)
	}
	if err != nil {
		return nil, nil, misuse(err)
	}
	return m, nil, nil
}

// openData opens --data, the workload's records, or the synthetic default.
func (o *options) openData(ctx context.Context, d *opened, files *source.Files, progress progressFunc) (loader.Dataset, loader.Transform, error) {
	if d.fixed() && o.data == "" {
		for _, k := range o.images.given() {
			return nil, nil, refuse("--"+flagName(k.Name), "emu:"+d.preset.Name+" brings its own samples, which are no images", "name images with --data, or leave it out")
		}
		ds, err := records.Generate(records.Options{SampleBytes: int(d.preset.Workload.SampleBytes), Seed: o.seed})
		return ds, records.Transform{}, err
	}
	path := o.data
	if path == "" {
		var err error
		if path, err = defaultData(ctx, progress); err != nil {
			return nil, nil, err
		}
	}
	return openPath(ctx, path, files, o.images, progress)
}

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
