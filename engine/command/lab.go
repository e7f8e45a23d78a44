package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/lab"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/command/sweepcmd"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/transform"
)

func newLab(version string) *cobra.Command {
	f := &labFlags{options: newOptions(version)}
	cmd := &cobra.Command{
		Use:   "lab [--out DIR] [-- COMMAND [ARGS]]",
		Short: "Write what a course's lab asks for: of your training, or of gpustall's own",
		Long: `Of a PyTorch training of your own, COMMAND behind --: watch it, tune its
DataLoader while it trains, prove the best, and write what a course's lab asks
for into DIR: problem, baseline, strategy, validation, pictures, CSV. The exit
code is the command's.

Without COMMAND, tell the whole story alone, of gpustall's own training: a
baseline that is slow on purpose, what holds it up, the fixes one by one,
validation, then precision, gradient accumulation, checkpointing and capture.
What is faster for sure is kept, and measured once more.

The baseline has num_workers 0, no page-locked memory, fp32 and no capture,
unless a flag says otherwise; --as-is begins with the settings as gpustall run
has them. Where neither --data nor --inject is given and the loader keeps up
all the same, reads are made slow, and everything says that this is injected.
DIR gets the report, a table, the pictures, and optimized_training.py. ctrl+c
keeps what is done and writes a partial report.`,
		Example: `  gpustall lab -- python train.py    # yours; the folder is lab
  gpustall lab --out story           # gpustall's own
  gpustall lab --resume --out story  # go on after ctrl+c`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 0 {
				return nil
			}
			return flags.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return labOf(cmd, f, args)
			}
			f.changed = func(name string) bool { return cmd.Flags().Changed(name) }
			return runLab(cmd.Context(), f, os.Stdout, os.Stderr)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// labFlags are the flags of a lab.
type labFlags struct {
	*options
	out     string
	warmup  int
	repeat  int
	asIs    bool
	resume  bool
	budget  time.Duration
	changed func(flag string) bool
}

// labEpochs is the number of epochs of the baseline and of the validation.
const labEpochs = 5

func (f *labFlags) add(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&f.out, "out", "", "folder for report, table, pictures and sessions (of a command: lab, unless said)")
	fs.DurationVar(&f.budget, "budget", experiment.TuneBudget, "of a command: training time that the tune may take at the most")
	fs.BoolVar(&f.resume, "resume", false, "go on with the lab in --out, as it was asked for")
	fs.BoolVar(&f.asIs, "as-is", false, "begin with the settings as they are, rather than slow ones, and inject nothing")
	fs.IntVar(&f.epochs, "epochs", labEpochs, "epochs of the baseline's and the validation's runs; the others have one")
	fs.IntVar(&f.steps, "steps", 0, "steps of every run that count, instead of epochs; more where a comparison needs them")
	fs.IntVar(&f.warmup, "warmup", 10, "steps before them that do not")
	fs.IntVar(&f.repeat, "repeat", 3, "runs of each configuration, in turns")
	f.addSubject(fs)
	f.keep.init.Add(fs)
	flags.AddSeed(fs, &f.seed)
	fs.Float64Var(&f.lr, "lr", 0, "learning rate (default: what suits the model and the batch size)")
	f.knobs.Add(fs, false)
}

// labOf writes the lab of the user's own training, which is tuned while it runs. It returns how the
// training ended.
func labOf(cmd *cobra.Command, f *labFlags, args []string) (err error) {
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		if fl.Name != "out" && fl.Name != "budget" {
			err = cli.Refuse("--"+fl.Name, "it is for gpustall's own training", "leave it out: the command has its own settings")
		}
	})
	if err != nil {
		return err
	}
	dir := cmp.Or(f.out, "lab")
	if rank := startedFor(); rank != "" { // all ranks get the same name from their launcher
		dir += "-rank" + rank
	}
	l := &lab.Lab{Dir: dir}
	if err := l.Vacant(); err != nil {
		return cli.Misuse(err)
	}
	o := newOptions(f.version)
	if o.ask.Tune, err = (&tuneFlags{budget: f.budget}).question(o); err != nil {
		return err
	}
	const or = "name another folder with --out"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return errs.Wrap(err, "write the lab to", dir, or)
	}
	o.session = filepath.Join(dir, "training"+store.Ext)
	ended := trainTuned(cmd.Context(), o, args)
	if !cli.Exists(o.session) {
		return cmp.Or(ended, error(errs.New("write the lab to", dir, "the training left no session", "the lines above say why")))
	}
	if err := writeLab([]string{o.session}, dir, or); err != nil {
		if ended != nil {
			_ = cli.Say(os.Stderr, "gpustall: %v\n", err)
		}
		return cmp.Or(ended, err)
	}
	_ = cli.Say(os.Stderr, "%-*s%s\n", cli.LabelWidth, "lab", filepath.Join(dir, report.LabReport))
	return ended
}

// slowBaseline are the settings of a baseline that is slow on purpose.
var slowBaseline = []knob.Setting{
	{Name: "num_workers", Value: "0"}, {Name: "pin_memory", Value: "off"}, {Name: "persistent_workers", Value: "off"},
	{Name: "precision", Value: "fp32"}, {Name: "capture", Value: "off"},
}

// request returns what the flags ask for. It opens device and data, asks what they are, and
// closes them.
func (f *labFlags) request(ctx context.Context, progress cli.Progress) (*lab.Request, error) {
	switch {
	case f.steps < 0 || f.steps > 1<<30 || f.steps == 0 && f.changed("steps"):
		return nil, cli.Refuse(fmt.Sprintf("--steps %d", f.steps), "out of range", "choose 1 or more")
	case f.epochs < 1 || f.epochs > 1<<20:
		return nil, cli.Refuse(fmt.Sprintf("--epochs %d", f.epochs), "out of range", "choose 1 or more")
	case f.steps > 0 && f.changed("epochs"):
		return nil, cli.Refuse("--steps", "--epochs is given too", "leave one out")
	case f.warmup < 0 || f.warmup > 1<<30:
		return nil, cli.Refuse(fmt.Sprintf("--warmup %d", f.warmup), "out of range", "choose 0 or more")
	case f.repeat < 1 || f.repeat > sweep.MaxRepeat:
		return nil, cli.Refuse(fmt.Sprintf("--repeat %d", f.repeat), "out of range", fmt.Sprintf("choose 1 to %d", sweep.MaxRepeat))
	}
	if err := f.check(nil); err != nil {
		return nil, err
	}
	if f.data != "" {
		if err := sweepcmd.CheckSetting(sweep.Data, f.data); err != nil {
			return nil, cli.Misuse(err)
		}
		path, err := source.Absolute(f.data) // --resume may be called from another folder
		if err != nil {
			return nil, errs.Wrap(err, "open", f.data, "name it in full")
		}
		f.data = path
	}
	weights, err := f.keep.init.Given()
	if err != nil {
		return nil, err
	}
	r := &lab.Request{Base: append(f.base(), weights...), Warmup: f.warmup, Repeat: f.repeat, Cores: host.Cores(), Version: f.version}
	r.Inject = !f.asIs && f.data == "" && !f.changed(knob.GroupInject)
	if !f.asIs {
		for _, k := range slowBaseline {
			if f.knobs.Text(k.Name) == "" {
				r.Base = append(r.Base, k)
				r.Slowed = append(r.Slowed, k.Name+"="+k.Value)
			}
		}
	}
	return r, f.size(ctx, r, progress)
}

// base returns the settings that were chosen.
func (f *labFlags) base() (base []knob.Setting) {
	add := func(name, value string) { base = append(base, knob.Setting{Name: name, Value: value}) }
	if f.data != "" {
		add(sweep.Data, f.data)
	}
	base = append(base, f.images.Given()...)
	add(sweep.Device, f.device)
	base = append(base, f.Model.Settings()...)
	if f.seed != 1 {
		add("seed", strconv.FormatInt(f.seed, 10))
	}
	if f.lr > 0 {
		add("lr", strconv.FormatFloat(f.lr, 'g', -1, 64))
	}
	return append(base, f.knobs.Given()...)
}

// size works out the number of steps of the runs, and the recipe.
func (f *labFlags) size(ctx context.Context, r *lab.Request, progress cli.Progress) (err error) {
	d, err := machine.Open(f.device, false, trace.NewClock())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Device.Close()) }()
	k := d.Defaults()
	for _, s := range r.Base {
		if train.KnobTable.Find(s.Name) != nil && s.Value != flags.TuneAgain && s.Value != flags.TuneKnown {
			if err := k.Set(s.Name, s.Value); err != nil {
				return cli.Misuse(err)
			}
		}
	}
	if err := k.Check(d.Device.Info()); err != nil {
		return cli.Misuse(err)
	}
	ds, tf, err := f.openData(ctx, d, nil, progress)
	if err != nil {
		return err
	}
	info := loader.InfoOf(ds, tf)
	model, _, err := f.openModel(d, info)
	if err = errors.Join(err, ds.Close()); err != nil {
		return err
	}
	if model == nil { // the script trains this instead of a modelled workload
		if model, err = nn.New("resnet18", nn.Shape{H: 32, W: 32, C: 3}, 10); err != nil {
			return err
		}
	}
	if err := f.rate(&k); err != nil {
		return err
	}
	s := f.recipe(model, k)
	if o := k.Optimizer; o.Chosen {
		r.Recipe = lab.Recipe{Optimizer: o.Torch("model", "LR"), LR: o.LR}
	} else {
		r.Recipe = lab.Recipe{LR: s.LR, Momentum: s.Momentum, WeightDecay: s.WeightDecay}
		if k.Schedule.Kind == nn.AutoSchedule {
			r.Recipe.Warmup = s.Warmup
		}
	}
	r.Recipe.Schedule, r.Recipe.ByEpoch = k.Schedule.Torch("updates", k.Optimizer.Cycles())
	if t, ok := tf.(*transform.Pipeline); ok && f.images.Given() != nil {
		test, err := t.Test()
		if err != nil {
			return err
		}
		r.Transforms = &lab.Transforms{Train: strings.Join(t.Torch(), ", "), Test: strings.Join(test.Torch(), ", "), Side: max(info.H, info.W)}
	}
	r.Data = info.Path
	if r.Long, r.Trial = f.steps, f.steps; f.steps == 0 {
		r.Trial = max(1, (info.Samples+k.Loader.BatchSize-1)/k.Loader.BatchSize)
		r.Long, r.Epochs = f.epochs*r.Trial, f.epochs
	}
	return nil
}

// runLab runs the lab. If a signal ends it, it writes what was measured until then.
func runLab(parent context.Context, f *labFlags, out, log io.Writer) error {
	if f.changed("budget") {
		return cli.Refuse("--budget", "it limits the tune of a command, and there is none", "leave it out, or write the command behind --")
	}
	if f.out == "" {
		return cli.Refuse("--out", "it is not given", "name a folder")
	}
	ctx, got, stop := cli.UntilSignal(parent, nil)
	defer stop()
	l := &lab.Lab{Dir: f.out, Runner: sweepcmd.Run, Tell: sweepcmd.Teller(out, log)}
	if err := f.begin(ctx, l, cli.ProgressTo(log)); err != nil {
		return errors.Join(got(), err)
	}
	l.Check = sweepcmd.Checker(false)
	l.Say = func(text string) { _ = cli.Say(out, "%s\n", units.Line(text)) }
	_ = cli.Say(log, "%s\n", announceLab(&l.Request))
	err := l.Run(ctx)
	if ctx.Err() != nil && cli.ColumnsOf(log) > 0 {
		_ = cli.Say(log, "\n") // below the bar
	}
	if werr := l.Save(); werr != nil {
		return errors.Join(err, werr)
	}
	if werr := l.Write(cli.ReplaceFile); werr != nil {
		return errs.Wrap(werr, "write the results of the lab to", f.out, "free some space: --resume writes them again from the sessions")
	}
	_ = cli.Say(out, "\n%s\n\nreport   %s\nresults  %s\nscript   %s\n", units.Line(l.Headline()),
		filepath.Join(f.out, lab.ReportFile), filepath.Join(f.out, lab.ResultFile), filepath.Join(f.out, lab.ScriptFile))
	if sig := got(); sig != nil {
		_ = cli.Say(log, "stopped: the report is partial; gpustall lab --resume --out %s goes on\n", f.out)
		return sig
	}
	return cmp.Or(err, l.Err())
}

// begin makes the folder of the lab, or with --resume reads its request.
func (f *labFlags) begin(ctx context.Context, l *lab.Lab, progress cli.Progress) error {
	if f.resume {
		for _, name := range f.named() {
			return cli.Refuse("--"+name, "--resume goes on as the lab was asked for", "leave it out, or begin another lab in another folder")
		}
		if err := l.Resume(); err != nil {
			return cli.Misuse(err)
		}
		l.Version = f.version
		return nil
	}
	if err := l.Vacant(); err != nil {
		return cli.Misuse(err)
	}
	r, err := f.request(ctx, progress)
	if err != nil {
		return err
	}
	l.Request = *r
	return l.Begin()
}

// named returns the given flags that would ask for another lab.
func (f *labFlags) named() (names []string) {
	all := []string{"as-is", "epochs", "steps", "warmup", "repeat", "device", "model", "stem", flags.BatchNorm, flags.OldBatchNorm, "data", flags.TransformSetting,
		flags.Name(flags.SizeSetting), flags.WhereSetting, "init", "seed", "lr"}
	all = append(all, f.knobs.Names()...)
	return slices.DeleteFunc(all, func(name string) bool { return !f.changed(name) })
}

// announceLab says what will be done.
func announceLab(r *lab.Request) string {
	text := fmt.Sprintf("runs of %s, and of %s for baseline and validation, after %s of warm-up, %s of each configuration",
		units.Counted(r.Trial, "step", "steps"), units.Count(r.Long), units.Count(r.Warmup), units.Count(r.Repeat))
	if len(r.Slowed) > 0 {
		text += "\nthe baseline is slow on purpose: " + strings.Join(r.Slowed, ", ")
	}
	return text
}
