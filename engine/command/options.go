package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine"
	"dev.gpustall/engine/nn"
	"dev.gpustall/loader"
)

// options are the flags of every command that trains.
type options struct {
	version    string
	device     string
	model      string
	data       string
	precision  string
	capture    bool
	accumulate int
	checkpoint bool
	timeOps    string
	autotune   string
	epochs     int
	steps      int
	seed       int64
	lr         float64
	knobs      []*knobFlag
	inject     []string

	fps     int
	theme   string
	ascii   bool
	noColor bool

	endless  bool // --epochs 0 was written out
	json     bool
	session  string
	interval float64
}

// knobFlag is one loader knob as a flag: the knob's name with dashes. Its value
// is checked where the flag is read, by the knob's own rules.
type knobFlag struct {
	name, value string
	kind        string // of the knob's spec
	set         bool
}

func (f *knobFlag) String() string { return f.value }
func (f *knobFlag) Type() string {
	switch f.kind {
	case "bool":
		return "on|off"
	case "duration":
		return "TIME"
	}
	return "N"
}

func (f *knobFlag) Set(v string) error {
	probe := engine.DefaultKnobs()
	if err := probe.Set(f.name, v); err != nil {
		return err
	}
	f.value, f.set = v, true
	return nil
}

func newOptions(version string) *options {
	return &options{version: version, fps: 10, theme: "default", interval: 1}
}

func (o *options) addTraining(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&o.device, "device", "auto", "auto, cpu, cuda[:N] or emu:PRESET (gpustall doctor lists them)")
	fs.StringVar(&o.model, "model", "", "cnn or resnet18 (default: cnn on the cpu, resnet18 elsewhere)")
	fs.StringVar(&o.data, "data", "", "CIFAR-10 folder or tar.gz, or a folder of images by class (default: synthetic CIFAR-10)")
	fs.IntVar(&o.epochs, "epochs", 0, "stop after N epochs, 0 for no limit (default: 1 without a screen, unless --steps is given)")
	fs.IntVar(&o.steps, "steps", 0, "stop after N steps (default: no limit)")
	fs.Int64Var(&o.seed, "seed", 1, "seed of the weights, the order and the augmentation")
	fs.Float64Var(&o.lr, "lr", 0, "learning rate (default: what suits the model and the batch size)")
	for _, s := range loader.Specs() {
		if s.Group == "inject" {
			continue
		}
		f := &knobFlag{name: s.Name, kind: s.Type}
		for _, k := range engine.DefaultKnobs().Loader.List() {
			if k.Name == s.Name {
				f.value = k.Value
			}
		}
		o.knobs = append(o.knobs, f)
		flag := fs.VarPF(f, strings.ReplaceAll(s.Name, "_", "-"), "", s.Help)
		setGroup(fs, flag.Name, groupLoader)
		if s.Type == "bool" {
			flag.NoOptDefVal = "on"
		}
	}
	fs.StringVar(&o.precision, "precision", "", "fp32, tf32, fp16 or bf16, where the device has it (default fp32)")
	fs.IntVar(&o.accumulate, "gradient-accumulation", 1, "batches whose gradients make one optimizer step")
	fs.BoolVar(&o.checkpoint, "checkpointing", false, "keep fewer activations and compute the others again")
	fs.BoolVar(&o.capture, "capture", false, "replay the step as one captured graph (CUDA)")
	fs.StringVar(&o.autotune, "autotune", "", "on, off or again: try the variants of each kernel once on a GPU, take the planner's, or try anew (CUDA; default on)")
	fs.StringVar(&o.timeOps, "time-ops", "sampled", "time each op of the step: in a step now and then (sampled), in every step, or off; alone it means every")
	fs.Lookup("time-ops").NoOptDefVal = "every"
	fs.StringArrayVar(&o.inject, "inject", nil, "slow the loader on purpose: read=5ms, cpu=2ms or straggler=3:50ms; may be repeated")
	fs.StringVar(&o.session, "session", "", "file to write the session to (default: in the state directory)")
}

func (o *options) addScreen(fs *pflag.FlagSet) {
	fs.IntVar(&o.fps, "fps", 10, "frames per second, 1 to 60")
	fs.StringVar(&o.theme, "theme", "default", "default, colorblind or mono")
	fs.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	fs.BoolVar(&o.noColor, "no-color", false, "no colours (also NO_COLOR)")
	for _, name := range []string{"fps", "theme", "ascii", "no-color"} {
		setGroup(fs, name, groupScreen)
	}
}

// engineKnobs gathers the knob flags; base holds the defaults of the device.
func (o *options) engineKnobs(base engine.Knobs) (engine.Knobs, error) {
	k := base
	for _, f := range o.knobs {
		if f.set {
			if err := k.Set(f.name, f.value); err != nil {
				return k, usageError{err}
			}
		}
	}
	if o.precision != "" {
		if err := k.Set("precision", o.precision); err != nil {
			return k, usageError{err}
		}
	}
	k.Capture, k.Checkpoint = o.capture, o.checkpoint
	if o.autotune != "" {
		k.Autotune = o.autotune != tuneOff
	}
	if err := k.Set("gradient_accumulation", strconv.Itoa(o.accumulate)); err != nil {
		return k, usageError{err}
	}
	if o.timeOps != "" {
		if err := k.Set("time_ops", o.timeOps); err != nil {
			return k, usageError{err}
		}
	}
	var err error
	if k.Loader.Inject, err = loader.ParseInject(strings.Join(o.inject, ",")); err != nil {
		return k, usageError{err}
	}
	if err := k.Loader.Validate(); err != nil {
		return k, usageError{err}
	}
	return k, nil
}

// schedule is the learning rate over steps.
func (o *options) schedule(m *nn.Model, k engine.Knobs) nn.Schedule {
	if m == nil {
		return nn.Schedule{}
	}
	s := m.DefaultSchedule(k.Loader.BatchSize)
	if o.lr > 0 {
		s.LR = o.lr
	}
	return s
}

// check refuses what no run can mean.
func (o *options) check(*cobra.Command) error {
	switch {
	case o.model != "" && !slices.Contains(nn.Names(), o.model):
		return usageError{fmt.Errorf("--model %q: the models are %s", o.model, strings.Join(nn.Names(), " and "))}
	case o.epochs < 0:
		return usageError{fmt.Errorf("--epochs %d: must be 0 (no limit) or more", o.epochs)}
	case o.steps < 0:
		return usageError{fmt.Errorf("--steps %d: must be 0 (no limit) or more", o.steps)}
	case !(o.lr >= 0) || math.IsInf(o.lr, 1):
		return usageError{fmt.Errorf("--lr %g: must be a positive number, or 0 for the default", o.lr)}
	case o.autotune != "" && o.autotune != tuneOn && o.autotune != tuneOff && o.autotune != tuneAgain:
		return usageError{fmt.Errorf("--autotune %q: choose on, off or again", o.autotune)}
	case !(o.interval >= 0.05 && o.interval <= 3600):
		return usageError{fmt.Errorf("--interval %g: must be 0.05 to 3600 seconds", o.interval)}
	case o.fps < 1 || o.fps > 60:
		return usageError{fmt.Errorf("--fps %d: must be 1 to 60", o.fps)}
	case o.theme != "default" && o.theme != "colorblind" && o.theme != "mono":
		return usageError{fmt.Errorf("--theme %q: the themes are default, colorblind and mono", o.theme)}
	}
	return nil
}
