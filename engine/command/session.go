package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/datacmd"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/transform"
)

// run is one training run and all that goes on beside it. It owns what it has opened and started;
// close ends all of it.
type run struct {
	device *machine.Device
	material
	recording
	clock    trace.Clock
	engine   *train.Engine
	began    train.Knobs // the knobs that the engine was made with
	model    string
	images   string // the transform of images, if one was given
	own      string // the device's own defaults that are in force
	batch    string // the size that --batch-size auto came to
	begins   string // what the weights begin with, if not random
	keeper   *keeper
	answered atomic.Bool // all questions are answered, which ends the run
	past     *watch.Past

	once sync.Once
	err  error // of close
}

// material is what a run trains and on which data.
type material struct {
	files     *source.Files // reads the data
	dataset   loader.Dataset
	transform loader.Transform
	info      loader.Info
	test      train.Test
	network   *nn.Model                  // nil if the device models a workload of its own
	fixed     func(int) device.Operation // the step of that workload
}

// newRun opens all that a training run needs. After an error nothing stays open.
func (o *options) newRun(ctx context.Context, progress cli.Progress) (*run, error) {
	clock := trace.NewClock()
	d, err := machine.Open(o.device, o.knobs.Text("autotune") == flags.TuneAgain, clock)
	if err != nil {
		return nil, err
	}
	return o.newRunOn(ctx, d, clock, progress)
}

// newRunOn opens the rest of a run on device d. After an error it closes d too.
func (o *options) newRunOn(ctx context.Context, d *machine.Device, clock trace.Clock, progress cli.Progress) (r *run, err error) {
	r = &run{device: d, clock: clock}
	started := time.Now()
	defer func() {
		if err != nil {
			_ = r.abandon()
			r = nil
		}
	}()
	knobs, err := o.knobsOn(d)
	if err != nil {
		return r, err
	}
	r.own = o.knobs.OwnDefaults(d.Device.Info())
	machine.RaiseProcessors(knobs.Loader.NumWorkers)
	if err = o.checkSession(); err != nil {
		return r, err // checked before data is made, which may take a while
	}
	if err = r.openMaterial(ctx, o, knobs, progress); err != nil {
		return r, err
	}
	r.recorder = trace.NewRecorder(r.clock, trace.DefaultCapacity)
	debug.FreeOSMemory() // memory that reading the data set left behind must not count as the run's
	if err = r.openEngine(ctx, o, knobs, progress); err != nil {
		return r, err
	}
	meta, st, err := r.openSession(ctx, o, started)
	if err != nil {
		return r, err
	}
	r.start(meta, st)
	r.export(o.metrics)
	return r, nil
}

// knobsOn returns the knobs with which a run begins on device d, after checking them.
func (o *options) knobsOn(d *machine.Device) (train.Knobs, error) {
	knobs, err := o.knobs.Over(d.Defaults())
	if err != nil {
		return knobs, cli.Misuse(err)
	}
	if err := o.rate(&knobs); err != nil {
		return knobs, err
	}
	if err := knobs.Check(d.Device.Info()); err != nil {
		return knobs, d.Explain(err)
	}
	return knobs, nil
}

// openMaterial opens the data, builds the model, and opens the test split if there is one.
func (r *run) openMaterial(ctx context.Context, o *options, knobs train.Knobs, progress cli.Progress) (err error) {
	if r.files, err = o.stores.Open(); err != nil {
		return err
	}
	ds, tf, err := o.openData(ctx, r.device, r.files, progress)
	if err != nil {
		return errs.Wrap(err, "open data", cmp.Or(o.data, "of the default set"), "check the path given to --data, or make a data set with gpustall data make")
	}
	r.dataset, r.transform, r.info = ds, tf, loader.InfoOf(ds, tf)
	if t, ok := tf.(*transform.Pipeline); ok && o.images.Given() != nil {
		r.images = "transform: " + t.String()
	}
	if err := knobs.Loader.Fits(r.info); err != nil {
		return cli.Misuse(err)
	}
	if r.network, r.fixed, err = o.openModel(r.device, r.info); err != nil {
		return err
	}
	if r.model = "a modelled step"; r.network != nil {
		r.model = r.network.Title()
	}
	if o.test && r.network != nil {
		if r.test, err = o.openTest(ctx, r.device, r.files, r.info, progress); err != nil {
			return err
		}
	}
	return o.keep.computes(r.device, r.network)
}

// openEngine makes the engine: it compiles or tunes kernels, and reserves memory.
func (r *run) openEngine(ctx context.Context, o *options, knobs train.Knobs, progress cli.Progress) (err error) {
	r.keeper = newKeeper(o, r, r.network)
	tuning := machine.TuneLimit
	if o.knobs.Text("autotune") == flags.TuneKnown {
		tuning = 0
	}
	cfg := train.Config{
		Task: prepared.Task{
			Model: r.network, Fixed: r.fixed, Seed: o.seed, TuneLimit: tuning, Start: ctx, Progress: progress,
			HostMemory: host.ReadMemory, HostPlanned: r.device.LimitHeap,
		},
		Device: r.device.Device, Recorder: r.recorder, Dataset: r.dataset, Transform: r.transform,
		Epochs: o.epochs, Steps: o.steps, Recipe: o.recipe(r.network, knobs), Knobs: knobs, Test: r.test,
		Predict: r.predict,
	}
	if o.knobs.Text("batch_size") == flags.BatchAuto {
		if knobs.Loader.BatchSize, err = cfg.LargestBatch(); err != nil {
			return err
		}
		cfg.Knobs, cfg.Recipe = knobs, o.recipe(r.network, knobs)
		r.batch = fmt.Sprintf("batch_size=%s: %s is the largest that fits into the memory of device and host", flags.BatchAuto, units.Count(int64(knobs.Loader.BatchSize)))
	}
	if o.keep.dir != "" {
		cfg.Keeping = train.Keeping{Every: o.keep.every, Keep: r.keeper.keep}
	}
	if r.begins, err = o.keep.begin(&cfg); err != nil {
		return err
	}
	r.engine, err = train.New(cfg)
	r.began = cfg.Knobs
	return errs.Wrap(err, "start to train", r.trains(), "lower batch_size, or choose another model or device")
}

// openSession makes the file of the session.
func (r *run) openSession(ctx context.Context, o *options, started time.Time) (meta trace.Meta, st *store.File, err error) {
	meta = o.meta(r, started)
	if meta.Cached, err = datacmd.PageCache(ctx, r.info.Path, o.dropCache); err != nil {
		return meta, nil, err
	}
	if st, r.file, err = o.createStore(cli.SessionDir(), meta); err != nil {
		return meta, nil, err
	}
	r.keeper.engine, r.keeper.run.Session = r.engine, baseName(r.file)
	return meta, st, nil
}

// start starts what goes on beside the training: the collector, gauges, experiments, the watch on
// the session's file, and the search for earlier runs. close stops them.
func (r *run) start(meta trace.Meta, st *store.File) {
	r.begin(meta, st, r.recorder.Now())
	if at, ok := r.dataset.(loader.Locator); ok {
		r.session.Locate(func(sample int32) string { return at.Locate(int(sample)) })
	}
	r.collector.Start()
	r.gauges = watch.StartGauges(r.recorder, r.engine, r.device, r.files)
	r.watch(r.engine, r.needs)
	r.past = watch.LookBack(r.recorder, meta, r.file, r.began.List())
}

// summarise returns the summary of the run, with the kernel variants that it chose.
func (r *run) summarise(cause error) *summary.Run {
	out := r.recording.summarise(cause)
	out.Autotune = summary.TunedKernels(r.engine.Tuned())
	return out
}

// kept says where the session and the checkpoints are, and what to do with them.
func (r *run) kept() string {
	text, there := r.recording.kept()
	if there {
		text += r.keeper.says(r.id())
	}
	return text
}

// train runs the engine to its end and closes the run.
func (r *run) train(ctx context.Context) error {
	for _, why := range []string{r.device.Why, r.own, r.batch, r.images, r.begins} {
		if why != "" {
			r.recorder.Note("info", why)
		}
	}
	if why := r.dataset.Info().Doubt; why != "" {
		r.recorder.Note("warn", "data: "+why)
	}
	err := errs.Wrap(r.engine.Run(ctx), "train", r.trains(), "run it again; gpustall report says how far it came")
	if kerr := r.keeper.finish(r.recorder); kerr != nil {
		r.recorder.Note("error", kerr.Error())
		err = errors.Join(err, kerr)
	}
	status := "finished"
	switch {
	case err != nil:
		status = "failed"
	case ctx.Err() != nil && !r.answered.Load():
		status = "stopped"
	}
	return errors.Join(err, r.close(status, err))
}

// trains says what is trained on which device.
func (r *run) trains() string { return r.model + " on " + r.device.Device.Info().Name }

// close stops what newRun started, in reverse order, and completes the session's file.
func (r *run) close(status string, cause error) error {
	r.once.Do(func() {
		r.unwatch()
		r.past.Stop()
		out := trace.Outcome{
			Ended: r.recorder.Now(), Status: status, PeakBytes: r.device.Device.MemoryPeak(), Planned: r.engine.Memory(),
			HostPeak: host.PeakMemory(), HostPlanned: r.engine.HostMemory(),
			Skipped: int64(r.engine.Loader().Skipped),
		}
		err := r.engine.Close()
		if cause != nil { // noted last, because the summary tells it
			out.Error = cause.Error()
			r.recorder.Note("error", out.Error)
		}
		hung := r.engine.Hung() != nil
		r.err = errors.Join(err, r.complete(out))
		if !hung { // otherwise the end of the process closes them
			closed := r.device.Device.Close()
			if errs.Explain(closed).Reason == errs.Explain(cause).Reason {
				closed = nil // a failed device returns the same error again
			}
			r.err = errors.Join(r.err, r.dataset.Close(), r.closeTest(), closed)
			r.files.Close()
		}
	})
	return r.err
}

// abandon closes what was opened of a run that could not start.
func (r *run) abandon() error {
	var errs []error
	if r.engine != nil {
		errs = append(errs, r.engine.Close())
		if r.engine.Hung() != nil {
			return errors.Join(errs...)
		}
	}
	if r.dataset != nil {
		errs = append(errs, r.dataset.Close(), r.closeTest())
	}
	r.files.Close()
	if r.device != nil {
		errs = append(errs, r.device.Device.Close())
	}
	return errors.Join(errs...)
}

// meta describes the run for its session.
func (o *options) meta(r *run, started time.Time) trace.Meta {
	d, info := r.device.Device.Info(), &r.info
	m := trace.Meta{
		Version: o.version, Started: started, Command: mask.Args(os.Args),
		Device: d.Name, DeviceKind: d.Kind, Emulated: d.Emulated,
		Dataset: info.Name, Format: info.Format, Contents: datacmd.Contents(r.dataset), Synthetic: info.Synthetic,
		Samples: int64(info.Samples), Classes: len(info.Classes),
		Seed: o.seed, Host: machine.Facts(), Specs: train.Specs(d), GPURate: o.gpuRate, Peaks: d.Peaks.FLOPs, PeakFrom: d.Peaks.From,
		Checkpoints: absolute(o.keep.dir), Resumed: o.keep.from.meta(),
	}
	if r.network != nil {
		m.Model, m.Form, m.Params = r.network.Title(), r.network.Form, r.network.NumParams()
	} else {
		m.Model = r.device.Preset.Workload.Name
	}
	m.ID = fmt.Sprintf("%s-%s-%s", started.Format("20060102-150405"), strings.ReplaceAll(m.Model, " ", "-"), d.Kind)
	return m
}

// createStore makes the session's file in a folder. If the default name is taken it gets a number.
func (o *options) createStore(dir string, m trace.Meta) (*store.File, string, error) {
	if o.session != "" {
		st, err := store.Create(o.session, m)
		return st, o.session, err
	}
	path := filepath.Join(dir, m.ID+store.Ext)
	for n := 2; ; n++ {
		st, err := store.Create(path, m)
		if !errors.Is(err, fs.ErrExist) { // another run may have made the file just now
			return st, path, err
		}
		path = filepath.Join(dir, fmt.Sprintf("%s-%d%s", m.ID, n, store.Ext))
	}
}

// checkSession refuses a session file that cannot be made. It makes only the default folder; the
// name of another may be a typing error.
func (o *options) checkSession() error {
	if o.session == "" {
		if err := cli.CheckSessionHome("name a file with --session"); err != nil {
			return err
		}
	}
	dir := filepath.Dir(o.session)
	if o.session == "" || filepath.Clean(dir) == filepath.Clean(cli.SessionDir()) {
		dir = cli.SessionDir()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return errs.Wrap(err, "make the folder of sessions", dir, "set XDG_STATE_HOME to one that can be written to")
		}
	}
	if o.session == "" {
		return nil
	}
	if cli.Exists(o.session) {
		return cli.Refuse("--session "+o.session, "the file exists", "name another one")
	}
	const hint = "name a file in a folder that can be written to with --session"
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Refuse("--session "+o.session, "there is no folder "+dir, "make it, or name a file in one that exists")
	case err != nil:
		return errs.Wrap(err, "create session file", o.session, hint)
	case !info.IsDir():
		return errs.New("create session file", o.session, dir+" is not a folder", hint)
	}
	return nil
}
