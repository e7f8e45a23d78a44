package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/checkpoint"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/safetensors"
)

// keeping are the flags of weights and checkpoints.
type keeping struct {
	init   flags.Init
	save   string
	dir    string
	every  int
	resume string
	from   *resumed // what --resume found
}

const (
	keptEvery = 1000 // default number of steps between checkpoints
	keptMost  = 3    // how many checkpoints of a run are kept
)

func (k *keeping) add(fs *pflag.FlagSet) {
	k.init.Add(fs)
	fs.StringVar(&k.save, "save", "", "write the weights to `FILE`"+safetensors.Ext+" in the end")
	fs.StringVar(&k.dir, "checkpoint", "", fmt.Sprintf("keep the run in the folder `DIR`, so that --resume goes on with it: every so many steps, and in the end; the newest %d stay", keptMost))
	fs.IntVar(&k.every, "checkpoint-every", keptEvery, "steps between checkpoints")
	fs.StringVar(&k.resume, "resume", "", "go on with the `RUN` that was kept: a session's name or file, latest, a checkpoint, or a folder of them; what other flags do not say is as it was")
	for _, name := range []string{"init", "save", "checkpoint", "checkpoint-every", "resume"} {
		flags.SetGroup(fs, name, flags.GroupWeights)
	}
}

// check refuses flags that cannot work, before anything is opened.
func (k *keeping) check() error {
	switch {
	case k.every < 1:
		return cli.Refuse(fmt.Sprintf("--checkpoint-every %d", k.every), "out of range", "choose 1 or more")
	case k.init.File != "" && k.resume != "":
		return cli.Refuse("--init", "--resume brings weights of its own", "give one of the two")
	case k.save != "" && filepath.Ext(k.save) != safetensors.Ext:
		return cli.Refuse("--save "+k.save, "it is written in one format only", "name a file that ends with "+safetensors.Ext)
	}
	if k.init.File != "" { // before files are made
		f, err := safetensors.Open(k.init.File)
		if err != nil {
			return err
		}
		_ = f.Close() // closing a file that was read cannot lose anything
	}
	if k.save != "" {
		if st, err := os.Stat(filepath.Dir(k.save)); err != nil || !st.IsDir() {
			return cli.Refuse("--save "+k.save, "there is no folder "+errs.Path(filepath.Dir(k.save)), "make it, or name a file in one that exists")
		}
	}
	if k.dir != "" {
		if err := os.MkdirAll(k.dir, 0o755); err != nil {
			return errs.File(err, "keep checkpoints in", k.dir, "name a folder that can be written to with --checkpoint")
		}
	}
	return nil
}

// computes refuses to keep weights on a device that has none. --init is ignored there.
func (k *keeping) computes(d *machine.Device, m *nn.Model) error {
	for _, f := range []struct{ flag, value string }{{"--save", k.save}, {"--checkpoint", k.dir}, {"--resume", k.resume}} {
		if f.value != "" && (m == nil || !d.Device.Info().Computes) {
			return cli.Refuse(f.flag+" "+f.value, d.Device.Info().Name+" computes nothing, so it has no weights", "choose another --device")
		}
	}
	return nil
}

// begin sets what the run begins with: given weights, or a checkpoint. said tells it in
// words.
func (k *keeping) begin(cfg *train.Config) (said string, err error) {
	info := cfg.Device.Info()
	switch {
	case k.init.File != "" && (cfg.Model == nil || !info.Computes):
		said = fmt.Sprintf("the weights in %s are left out: %s computes nothing, and the times that it models do not depend on them", errs.Path(k.init.File), info.Name)
	case k.init.File != "":
		cfg.Weights, said, err = checkpoint.Init(k.init.File, cfg.Model)
	case k.from != nil:
		if err := checkpoint.Fits(k.from.path, k.from.point.State, cfg.Model); err != nil {
			return "", err
		}
		if said, err = k.from.goesOn(cfg.Dataset.Info()), k.from.left(cfg); err != nil {
			return "", err
		}
		cfg.From = k.from.point
	}
	return said, err
}

// keeper writes checkpoints during the run.
type keeper struct {
	keeping *keeping
	run     checkpoint.Run // without the current knobs
	from    int            // the step at which the run began
	engine  *train.Engine
	writing sync.WaitGroup
	mu      sync.Mutex
	err     error // of the checkpoint that was written last
	last    string
	at      int // the step of last
}

// newKeeper describes the run in its checkpoints, for a run that continues it.
func newKeeper(o *options, r *run, m *nn.Model) *keeper {
	info := r.dataset.Info()
	k := &keeper{keeping: &o.keep, at: -1}
	k.run = checkpoint.Run{
		Made: o.version, Model: r.model, Chosen: o.Chosen(m), Data: absolute(o.data), Dataset: info.Name, Classes: len(info.Classes), In: info.Shape(),
		Seed: o.seed, LR: o.lr, Images: o.images.Given(), Epochs: o.epochs, Steps: o.steps,
	}
	if f := o.keep.from; f != nil {
		k.from = f.point.Step
	}
	return k
}

// absolute returns the absolute path. An address of an object store stays as it is.
func absolute(path string) string {
	if path == "" || strings.Contains(path, "://") {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// keep implements train.Keeping.Keep. It waits for the previous checkpoint and returns that
// one's error. Then it copies the state and writes it in a goroutine.
func (k *keeper) keep(capture func() (*train.Point, error)) error {
	k.writing.Wait()
	k.mu.Lock()
	err := k.err
	k.err = nil
	k.mu.Unlock()
	p, cerr := capture()
	if cerr != nil {
		return errors.Join(err, cerr)
	}
	k.writing.Go(func() {
		err := k.write(p)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.err = err
	})
	return err
}

// write writes a checkpoint, and removes the oldest ones.
func (k *keeper) write(p *train.Point) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("write a checkpoint: panic: %v", v)
		}
	}()
	run := k.run
	for _, name := range k.engine.Requested() {
		run.Knobs = append(run.Knobs, knob.Setting{Name: name.Name, Value: name.Value})
	}
	path := checkpoint.Path(k.keeping.dir, run.Session, p.Step)
	if err := checkpoint.Write(path, run, p); err != nil {
		return errs.Wrap(err, "keep step", fmt.Sprint(p.Step), "free some space, or name another folder with --checkpoint")
	}
	k.mu.Lock()
	k.last, k.at = path, p.Step
	k.mu.Unlock()
	all, err := checkpoint.List(k.keeping.dir, run.Session)
	if err != nil {
		return errs.File(err, "look through", k.keeping.dir, "check the folder")
	}
	for i := 0; i < len(all)-keptMost; i++ {
		if err := os.Remove(all[i]); err != nil {
			return errs.File(err, "remove", all[i], "remove it by hand")
		}
	}
	return nil
}

// finish writes the last checkpoint and the requested weights. It notes what it leaves out.
func (k *keeper) finish(r *trace.Recorder) error {
	k.writing.Wait()
	err := k.err
	if k.keeping.dir == "" && k.keeping.save == "" {
		return err
	}
	if k.engine.Diverged() {
		r.Note("warn", "no checkpoint and no weights were written in the end: the loss is not a number")
		return err
	}
	p, perr := k.engine.Point()
	if perr != nil {
		return errors.Join(err, perr)
	}
	if k.keeping.dir != "" && p.Step > k.from && p.Step != k.at {
		err = errors.Join(err, k.write(p))
	}
	if k.keeping.save != "" {
		err = errors.Join(err, checkpoint.Save(k.keeping.save, p))
	}
	return err
}

// says returns lines that say what was kept and how to use it.
func (k *keeper) says(id string) string {
	out := ""
	if k.last != "" {
		out += fmt.Sprintf("%-*sgpustall run --resume %s   # step %d is in %s\n", cli.LabelWidth, "resume", id, k.at, k.last)
	}
	if k.keeping.save != "" && cli.Exists(k.keeping.save) {
		out += fmt.Sprintf("%-*s%s\n", cli.LabelWidth, "weights", k.keeping.save)
	}
	return out
}
