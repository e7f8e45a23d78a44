package sweepcmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/loader/source"
)

// sweepFlags are the flags of a sweep. A flag with one value holds for all settings; a flag with
// several is an axis.
type sweepFlags struct {
	version string
	out     string
	steps   int
	epochs  int
	warmup  int
	repeat  int
	seed    int64
	lr      float64
	ladder  string
	devices []string
	models  []string
	stems   []string
	plain   []string // the opposite of --batch-norm
	data    []string
	images  flags.Images
	init    flags.Init
	drop    bool
	axes    []string // --knob
	slurm   bool     // the runs are tasks of a cluster
	script  bool     // the script is written and not submitted
	cluster sweep.Slurm
	knobs   flags.Knobs
	lists   []*ListFlag
	command []string // of the user's; empty for gpustall's own training
}

func (f *sweepFlags) add(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&f.out, "out", "", "folder for sessions, table and pictures; one that has a sweep is gone on with")
	fs.StringArrayVar(&f.axes, "knob", nil, "a knob and its values, as in num_workers=0,2,4; may be repeated")
	fs.StringVar(&f.ladder, "ladder", "", "settings that are added one by one: 'baseline; num_workers=4; +pin_memory'")
	fs.IntVar(&f.steps, "steps", 100, "steps of a run that count")
	fs.IntVar(&f.epochs, "epochs", 0, "train each for N epochs instead, evaluate after each, and tell what was learnt (default: --steps)")
	fs.IntVar(&f.warmup, "warmup", 10, "steps before them that do not")
	fs.IntVar(&f.repeat, "repeat", 1, "runs of each configuration, in turns")
	fs.StringSliceVar(&f.devices, "device", nil, "auto, cpu, cuda[:N] or emu:PRESET, or several (default: auto)")
	fs.StringSliceVar(&f.models, "model", nil, "one or several of "+flags.ModelHelp)
	fs.StringSliceVar(&f.stems, "stem", nil, flags.StemHelp)
	fs.VarPF((*norms)(&f.plain), flags.BatchNorm, "", flags.BatchNormHelp+"; --batch-norm=on,off trains both").NoOptDefVal = "on"
	fs.StringSliceVar(&f.plain, flags.OldBatchNorm, nil, flags.BatchNormHelp)
	before := fs.Lookup(flags.OldBatchNorm)
	before.NoOptDefVal, before.Hidden = "on", true
	fs.StringSliceVar(&f.data, "data", nil, "data sets as of gpustall run (default: synthetic CIFAR-10)")
	f.images.Add(fs)
	f.init.Add(fs)
	flags.AddDropCache(fs, &f.drop)
	flags.AddSeed(fs, &f.seed)
	fs.Float64Var(&f.lr, "lr", 0, "learning rate (default: what suits the model and the batch size)")
	fs.BoolVar(&f.slurm, "slurm", false, "have a Slurm cluster do the runs, as an sbatch array, and wait for them; --out must be on all nodes")
	fs.BoolVar(&f.script, "slurm-script", false, "write the batch script into --out and do nothing else")
	fs.StringVar(&f.cluster.Partition, "partition", "", "of --slurm: where the runs go")
	fs.StringVar(&f.cluster.Time, "time", "", "of --slurm: how long a run may take, as in 00:30:00")
	fs.StringVar(&f.cluster.Gres, "gres", "", "of --slurm: the devices of a run, as in gpu:1")
	fs.IntVar(&f.cluster.CPUs, "cpus-per-task", 0, "of --slurm: the cores of a run (default: the largest num_workers and one)")
	fs.StringVar(&f.cluster.Mem, "mem", "", "of --slurm: the memory of a run, as in `16G`")
	fs.StringVar(&f.cluster.Account, "account", "", "of --slurm: the `ACCOUNT` that pays for the runs")
	fs.StringVar(&f.cluster.QOS, "qos", "", "of --slurm: the quality of service `QOS`")
	fs.StringVar(&f.cluster.Constraint, "constraint", "", "of --slurm: the `FEATURE` that nodes must have, such as h100")
	fs.StringArrayVar(&f.cluster.Args, "sbatch-arg", nil, "of --slurm: an `OPTION` of sbatch's, as in exclusive or exclude=n7; may be repeated")
	single := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.knobs.Add(single, false)
	single.VisitAll(func(one *pflag.Flag) {
		k, ok := one.Value.(*flags.Knob)
		if !ok {
			fs.AddFlag(one) // --inject takes commas already
			return
		}
		l := &ListFlag{Knob: k}
		f.lists = append(f.lists, l)
		list := fs.VarPF(l, one.Name, "", one.Usage)
		list.NoOptDefVal, list.Annotations, list.Hidden = one.NoOptDefVal, one.Annotations, one.Hidden
	})
}

// norms holds the values of --batch-norm, as values of the setting that says the opposite.
type norms []string

func (n *norms) String() string { return "" }
func (n *norms) Type() string   { return "on|off,..." }

// Set adds the values of a list.
func (n *norms) Set(text string) error {
	for v := range strings.SplitSeq(text, ",") {
		var s flags.Switch
		if err := s.Set(v); err != nil {
			return err
		}
		*n = append(*n, knob.Opposite(knob.Switch(bool(s))))
	}
	return nil
}

// ListFlag is the flag of a knob that takes several values.
type ListFlag struct {
	*flags.Knob
	values []string
}

// Set adds the values of a list.
func (l *ListFlag) Set(text string) error {
	for _, v := range values(text) {
		if err := l.Check(v); err != nil {
			return err
		}
		l.values = append(l.values, v)
	}
	return nil
}

// values splits a list at its commas. A comma before an assignment belongs to the value:
// sgd,adamw,lr=3e-4 are two values.
func values(list string) (out []string) {
	for v := range strings.SplitSeq(list, ",") {
		if strings.Contains(v, "=") && len(out) > 0 {
			out[len(out)-1] += "," + v
			continue
		}
		out = append(out, v)
	}
	return out
}

// plan returns the plan of the sweep. It checks each value and each setting.
func (f *sweepFlags) plan() (*sweep.Plan, error) {
	switch {
	case f.out == "":
		return nil, cli.Refuse("--out", "it is not given", "name a folder")
	case f.steps < 1 || f.steps > 1<<30:
		return nil, cli.Refuse(fmt.Sprintf("--steps %d", f.steps), "out of range", "choose 1 or more")
	case f.epochs < 0 || f.epochs > 1<<20:
		return nil, cli.Refuse(fmt.Sprintf("--epochs %d", f.epochs), "out of range", "choose 1 or more, or leave it out")
	case f.warmup < 0 || f.warmup > 1<<30:
		return nil, cli.Refuse(fmt.Sprintf("--warmup %d", f.warmup), "out of range", "choose 0 or more")
	case f.repeat < 1 || f.repeat > sweep.MaxRepeat:
		return nil, cli.Refuse(fmt.Sprintf("--repeat %d", f.repeat), "out of range", fmt.Sprintf("choose 1 to %d", sweep.MaxRepeat))
	case !(f.lr >= 0 && f.lr < 1e9):
		return nil, cli.Refuse(fmt.Sprintf("--lr %g", f.lr), "not a positive number", "give one, or 0 for the default")
	}
	base, axes, err := f.settings()
	if err != nil {
		return nil, err
	}
	if f.epochs > 0 {
		f.steps = 0
	}
	p := &sweep.Plan{Command: f.command, Base: base, Steps: f.steps, Warmup: f.warmup, Epochs: f.epochs, Repeat: f.repeat, Cluster: f.slurm || f.script, Version: f.version}
	if f.ladder == "" {
		p.Configs = sweep.Grid(axes)
	} else {
		if len(axes) > 0 {
			return nil, cli.Refuse("--ladder", "there is an axis too ("+axes[0].Name+")", "give one value of each, or leave the ladder out")
		}
		p.Ladder = true
		if p.Configs, err = sweep.Ladder(f.ladder); err != nil {
			return nil, cli.Misuse(err)
		}
		for i := range p.Configs {
			for j, k := range p.Configs[i].Adds {
				if err := f.checkSetting(k.Name, k.Value); err != nil {
					return nil, cli.Misuse(errs.Wrap(err, "read ladder", strconv.Quote(p.Configs[i].Name), "gpustall run --help lists the knobs and what they take"))
				}
				p.Configs[i].Adds[j] = k
			}
		}
	}
	const most = 1000
	if len(p.Configs) > most {
		return nil, cli.Refuse("--knob", fmt.Sprintf("%d configurations are too many", len(p.Configs)), fmt.Sprintf("ask for %d or fewer", most))
	}
	if f.command != nil {
		return p, p.Check(fills(p))
	}
	return p, p.Check(Checker(f.slurm || f.script))
}

// settings returns what all runs have in common, and the axes.
func (f *sweepFlags) settings() (base []knob.Setting, axes []sweep.Axis, err error) {
	add := func(name string, values []string) {
		switch len(values) {
		case 0:
		case 1:
			base = append(base, knob.Setting{Name: name, Value: values[0]})
		default:
			axes = append(axes, sweep.Axis{Name: name, Values: values})
		}
	}
	for _, of := range []struct {
		name   string
		values []string
	}{{sweep.Data, f.data}, {sweep.Device, f.devices}, {sweep.Model, f.models}, {sweep.Stem, f.stems}, {sweep.NoBatchNorm, f.plain}} {
		for _, v := range of.values {
			if err := CheckSetting(of.name, v); err != nil {
				return nil, nil, cli.Misuse(err)
			}
		}
		add(of.name, of.values)
	}
	if err := f.images.Check(); err != nil {
		return nil, nil, err
	}
	weights, err := f.init.Given()
	if err != nil {
		return nil, nil, err
	}
	base = append(append(base, f.images.Given()...), weights...)
	if f.drop {
		add(flags.DropSetting, []string{"true"})
	}
	if f.seed != 1 {
		add("seed", []string{strconv.FormatInt(f.seed, 10)})
	}
	if f.lr > 0 {
		add("lr", []string{strconv.FormatFloat(f.lr, 'g', -1, 64)})
	}
	for _, k := range f.knobs.Injected() {
		add(k.Name, []string{k.Value})
	}
	for _, l := range f.lists {
		add(l.KnobName(), l.values)
	}
	for _, text := range f.axes {
		name, given, _ := strings.Cut(text, "=")
		name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		list := f.values(name, given)
		for i := range list {
			if list[i] = strings.TrimSpace(list[i]); list[i] == "" && !f.fills(name) {
				return nil, nil, cli.Refuse(fmt.Sprintf("--knob %q", text), "a value is empty", "write it as num_workers=0,2,4")
			}
			if err := f.checkSetting(name, list[i]); err != nil {
				return nil, nil, cli.Misuse(err)
			}
		}
		add(name, list)
	}
	seen := map[string]bool{}
	for _, a := range append(slices.Clone(axes), sweep.Axis{}) {
		if seen[a.Name] || knob.ValueOf(base, a.Name) != "" {
			return nil, nil, cli.Refuse("--knob "+a.Name, "it is given twice", "give all its values at once")
		}
		seen[a.Name] = true
		for i, v := range a.Values {
			if slices.Contains(a.Values[:i], v) {
				return nil, nil, cli.Refuse("--knob "+a.Name, "it has the value "+v+" twice", "leave one out; --repeat measures again")
			}
		}
	}
	return base, axes, nil
}

// CheckSetting refuses a value that a setting takes on no machine.
func CheckSetting(name, value string) error {
	switch name {
	case sweep.Device:
		if value == "auto" || value == "cpu" || value == "cuda" || strings.HasPrefix(value, "cuda:") {
			return nil
		}
		if strings.HasPrefix(value, "emu:") {
			_, err := emu.Find(value)
			return err
		}
		return errs.New("set", "device="+value, "there is none of that name",
			"choose auto, cpu, cuda[:N] or emu:NAME with NAME one of "+strings.Join(emu.Names(), ", ")).Because(device.ErrNoDevice)
	case sweep.Model, sweep.Stem, sweep.NoBatchNorm:
		return flags.CheckModel(name, value)
	case sweep.Data:
		if err := flags.CheckData(value); err != nil || source.Remote(value) {
			return err
		}
		if !cli.Exists(value) {
			return errs.New("set", "data="+value, "there is no such file or folder", "gpustall data make writes a synthetic one")
		}
		return nil
	}
	return flags.CheckKnob(name, value)
}

// sized holds what is known of a device without training on it.
type sized struct {
	info     device.Info
	defaults train.Knobs
	own      bool // the device has a workload of its own
	unknown  bool // the device is in another machine
	err      error
}

// Checker returns a function that says why settings cannot be run, or which of them have no
// effect. elsewhere says that the runs are on other machines, whose GPUs are unknown.
func Checker(elsewhere bool) func(all []knob.Setting) (refused string, idle []string) {
	devices := map[string]*sized{} // by name, each opened once
	return func(all []knob.Setting) (string, []string) { return possible(devices, all, elsewhere) }
}

// possible is the function that Checker returns. It keeps the devices that it has looked at in
// devices.
func possible(devices map[string]*sized, all []knob.Setting, elsewhere bool) (refused string, idle []string) {
	name := knob.ValueOf(all, sweep.Device)
	if name == "" {
		name = "auto"
	}
	d := devices[name]
	if d == nil {
		if elsewhere && name != "cpu" && !strings.HasPrefix(name, "emu:") {
			d = &sized{defaults: train.DefaultKnobs(), unknown: true}
		} else {
			d = look(name)
		}
		devices[name] = d
	}
	if d.err != nil {
		return d.err.Error(), nil
	}
	for _, s := range []string{sweep.Model, sweep.Stem, sweep.NoBatchNorm} {
		if d.own && knob.ValueOf(all, s) != "" {
			return name + " brings its own workload, which takes no " + s, nil
		}
	}
	k := d.defaults
	for _, s := range all {
		if train.KnobTable.Find(s.Name) == nil || s.Value == flags.TuneAgain || s.Value == flags.TuneKnown {
			continue
		}
		if err := k.Set(s.Name, s.Value); err != nil {
			return err.Error(), nil
		}
	}
	if d.unknown {
		if err := train.KnobTable.Check(k); err != nil {
			return err.Error(), nil
		}
		return "", nil
	}
	if err := k.Check(d.info); err != nil {
		return err.Error(), nil
	}
	return "", train.KnobTable.Ineffective(k, train.Specs(d.info))
}

// look opens a device, finds out what it can do, and closes it.
func look(name string) *sized {
	o, err := machine.Open(name, false, trace.NewClock())
	if err != nil {
		return &sized{err: err}
	}
	s := &sized{info: o.Device.Info(), defaults: o.Defaults(), own: o.Fixed()}
	s.err = o.Device.Close()
	return s
}
