package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/checkpoint"
	"dev.gpustall/engine/train/safetensors"
	"dev.gpustall/loader"
)

// resumed is a run that is continued.
type resumed struct {
	path  string
	run   *checkpoint.Run
	point *train.Point
}

const hintResume = "name a session that was kept with --checkpoint, a checkpoint, or a folder of them"

// findCheckpoint returns the checkpoint that --resume names.
func findCheckpoint(what string) (string, error) {
	if filepath.Ext(what) == safetensors.Ext {
		return what, nil
	}
	if st, err := os.Stat(what); err == nil && st.IsDir() {
		all, err := checkpoint.List(what, "")
		if err != nil {
			return "", errs.File(err, "resume", what, hintResume)
		}
		if len(all) == 0 {
			return "", errs.New("resume", what, "there is no checkpoint in it", hintResume)
		}
		return all[len(all)-1], nil
	}
	file, err := findSession(what)
	if err != nil {
		return "", err
	}
	session, err := store.Open(file)
	if err != nil {
		return "", err
	}
	m := session.Meta()
	if m.Checkpoints == "" {
		return "", errs.New("resume", what, "the run was not kept", "run with --checkpoint DIR to keep it")
	}
	all, err := checkpoint.List(m.Checkpoints, baseName(file))
	if err != nil {
		return "", errs.File(err, "resume", what, "put the folder "+errs.Path(m.Checkpoints)+" back, or name where it is now")
	}
	if len(all) == 0 {
		return "", errs.New("resume", what, "there is no checkpoint of it in "+errs.Path(m.Checkpoints),
			"it may have ended before its first; --checkpoint-every makes them more often")
	}
	return all[len(all)-1], nil
}

// takeUp reads the checkpoint of --resume. It sets the options that are not given to the
// earlier run's.
func (o *options) takeUp(given func(flag string) bool) error {
	if o.keep.resume == "" {
		return nil
	}
	path, err := findCheckpoint(o.keep.resume)
	if err != nil {
		return err
	}
	run, point, err := checkpoint.Read(path)
	if err != nil {
		return err
	}
	o.keep.from = &resumed{path, run, point}
	for _, k := range o.Model.Settings() {
		if knob.ValueOf(run.Chosen, k.Name) != k.Value {
			return cli.Refuse("--"+flags.Name(k.Name)+" "+k.FlagValue(), fmt.Sprintf("%s is of %s", errs.Path(path), run.Model), "leave it out, or begin a new run")
		}
	}
	if given("seed") && o.seed != run.Seed {
		return cli.Refuse(fmt.Sprintf("--seed %d", o.seed), fmt.Sprintf("the run has seed %d, by which its order goes on", run.Seed),
			"leave it out, or begin a new run with --init "+path)
	}
	o.seed = run.Seed
	o.Model.Take(run.Chosen)
	if !given("data") {
		o.data = run.Data
	}
	if !given(flags.TransformSetting) && !given(flags.Name(flags.SizeSetting)) {
		o.images.Transform = knob.ValueOf(run.Images, flags.TransformSetting)
		o.images.Size, _ = strconv.Atoi(knob.ValueOf(run.Images, flags.SizeSetting)) // 0 if there is none
	}
	if !given(flags.WhereSetting) {
		o.images.Where = knob.ValueOf(run.Images, flags.WhereSetting)
	}
	if !given("lr") {
		o.lr = run.LR
	}
	if !given("epochs") && !given("steps") {
		o.epochs, o.steps, o.endless = run.Epochs, run.Steps, run.Epochs == 0 && run.Steps == 0
	}
	if !given("checkpoint") {
		o.keep.dir = filepath.Dir(path)
	}
	return o.knobs.TakeUp(run.Knobs, path, given)
}

// goesOn says where the run continues.
func (f *resumed) goesOn(info loader.Info) string {
	p := f.point
	n := p.Loader.Samples
	said := fmt.Sprintf("goes on after step %s, in epoch %d behind %s of %s, from %s",
		units.Count(p.Step), p.Loader.Epoch+1, units.Counted(p.Loader.Delivered(), "sample", "samples"), units.Count(n), errs.Path(f.path))
	if f.run.Dataset != info.Name {
		said += fmt.Sprintf("; it began on %s, and this is %s", errs.Path(f.run.Dataset), errs.Path(info.Name))
	}
	return said
}

// left refuses to continue a run that has reached its end.
func (f *resumed) left(cfg *train.Config) error {
	const hint = "raise it to train on"
	switch p := f.point; {
	case cfg.Steps > 0 && p.Step >= cfg.Steps:
		return cli.Refuse(fmt.Sprintf("--steps %d", cfg.Steps), fmt.Sprintf("the run has come to its end: it is at step %d", p.Step), hint)
	case cfg.Epochs > 0 && p.Loader.Epoch >= cfg.Epochs:
		return cli.Refuse(fmt.Sprintf("--epochs %d", cfg.Epochs), fmt.Sprintf("the run has come to its end: it has trained %s",
			units.Counted(p.Loader.Epoch, "epoch", "epochs")), hint)
	}
	return nil
}

// meta describes the earlier run for the session. It returns nil if there is none.
func (f *resumed) meta() *trace.Resumed {
	if f == nil {
		return nil
	}
	p := &f.point.Loader
	return &trace.Resumed{From: f.path, Session: f.run.Session, Step: int32(f.point.Step), Epoch: int32(p.Epoch), Delivered: int64(p.Delivered())}
}
