package command

import (
	"context"
	"errors"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/datacmd"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/format/records"
	"dev.gpustall/loader/source"
)

// openModel builds the network, or returns the fixed step of a modelled workload.
func (o *options) openModel(d *machine.Device, info loader.Info) (*nn.Model, func(int) device.Operation, error) {
	if d.Fixed() {
		for _, s := range o.Model.Settings() {
			flag := "--" + flags.Name(s.Name)
			return nil, nil, cli.Refuse(flag+" "+s.Value, "emu:"+d.Preset.Name+" brings its own workload", "leave "+flag+" out")
		}
		return nil, d.Preset.Workload.Step, nil
	}
	name := o.Name
	if name == "" {
		switch {
		case info.T > 0:
			name = "cnn3d"
		case d.Device.Info().Kind == "cpu":
			name = "cnn"
		default:
			name = "resnet18"
		}
	}
	m, err := nn.Spec{Name: name, In: nn.Shape{H: info.H, W: info.W, C: info.C, T: info.T}, Classes: len(info.Classes),
		Stem: o.Stem, NoBatchNorm: bool(o.NoBatchNorm)}.Model()
	if why := errs.Explain(err); err != nil && info.Doubt != "" && info.C > nn.MaxChannels {
		err = errs.New(why.Op, why.Object, why.Reason, info.Doubt).Because(err)
	}
	if err != nil {
		return nil, nil, cli.Misuse(err)
	}
	return m, nil, nil
}

// openData opens --data, the records of a modelled workload, or the default data set.
func (o *options) openData(ctx context.Context, d *machine.Device, files *source.Files, progress cli.Progress) (loader.Dataset, loader.Transform, error) {
	if d.Fixed() && o.data == "" {
		for _, k := range o.images.Given() {
			return nil, nil, cli.Refuse("--"+flags.Name(k.Name), "emu:"+d.Preset.Name+" brings its own samples, which are no images",
				"name images with --data, or leave it out")
		}
		ds, err := records.Generate(records.Options{SampleBytes: int(d.Preset.Workload.SampleBytes), Seed: o.seed})
		return ds, records.Transform{}, err
	}
	path := o.data
	if path == "" {
		var err error
		if path, err = datacmd.Default(ctx, progress); err != nil {
			return nil, nil, err
		}
	}
	return datacmd.Open(ctx, path, files, o.images, progress)
}

// openTest opens the test split of the training data, if there is one and the device can
// evaluate.
func (o *options) openTest(ctx context.Context, d *machine.Device, files *source.Files, training loader.Info, progress cli.Progress) (t train.Test, err error) {
	if d.Fixed() && o.data == "" || !d.Device.Info().Computes {
		return t, nil
	}
	path := o.data
	if path == "" {
		if path, err = datacmd.Default(ctx, progress); err != nil {
			return t, err
		}
	}
	options := format.Options{Files: files}
	if cli.CheckHome("indexes of shards", cli.CacheVariable, "") == nil {
		options.Cache = cli.CacheDir()
	}
	o.images.To(&options)
	ds, tf, err := format.OpenTest(ctx, path, options)
	switch {
	case errors.Is(err, format.ErrUnknown):
		return t, nil // there is no test split
	case err != nil:
		return t, errs.Wrap(err, "open the test split of", path, "repair it, or leave it out with --evaluate=off")
	}
	info := loader.InfoOf(ds, tf)
	if !slices.Equal(info.Classes, training.Classes) || info.H != training.H || info.W != training.W || info.C != training.C {
		return t, errors.Join(ds.Close(), errs.New("evaluate on the test split of", path, "its classes or its images are not those of the training split",
			"repair it, or leave it out with --evaluate=off"))
	}
	return train.Test{Dataset: ds, Transform: tf, Epochs: true}, nil
}

func (r *run) closeTest() error {
	if r.test.Dataset == nil {
		return nil
	}
	return r.test.Dataset.Close()
}
