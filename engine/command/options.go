package command

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/tui"
)

// themes are the themes of the screen.
var themes = tui.Themes()

// options are the flags of every command that trains.
type options struct {
	version string
	device  string
	flags.Model
	data    string
	images  flags.Images
	epochs  int
	steps   int
	seed    int64
	lr      float64
	test    flags.Switch // --evaluate
	gpuRate float64      // dollars an hour
	knobs   flags.Knobs
	keep    keeping
	stores  flags.Stores

	dropCache bool

	fps     int
	theme   string
	ascii   bool
	noColor bool

	endless  bool // --epochs was given: 0 is no limit then
	json     bool
	session  string
	metrics  string // a port or a file; empty where nobody asks for them
	interval float64
	ask      flags.Questions
}

func newOptions(version string) *options {
	return &options{version: version, keep: keeping{every: keptEvery}, stores: flags.Stores{Size: flags.DefaultStoreCache}, fps: 10, test: true,
		theme: "default", interval: 1, ask: flags.Questions{Budget: experiment.PairedBudget}}
}

// dataHelp says what --data takes.
const dataHelp = "CIFAR-10 or CIFAR-100 folder or tar.gz, a folder of images or .npy arrays by class, or one of WebDataset shards; the last two also as s3:// or azblob:// (default: synthetic CIFAR-10)"

// addTraining adds the flags of a training.
func (o *options) addTraining(fs *pflag.FlagSet) {
	fs.SortFlags = false
	o.addSubject(fs)
	flags.AddDropCache(fs, &o.dropCache)
	fs.IntVar(&o.epochs, "epochs", 0, "stop after N epochs, 0 for no limit (default: 1 without a screen, unless --steps is given)")
	fs.IntVar(&o.steps, "steps", 0, "stop after N steps (default: no limit)")
	flags.AddSeed(fs, &o.seed)
	fs.Float64Var(&o.lr, "lr", 0, "learning rate (default: what suits the model and the batch size, or the optimizer's that was chosen)")
	fs.VarPF(&o.test, "evaluate", "", "evaluate on the data's test split after each epoch, if there is one; that time is in no share").NoOptDefVal = "on"
	o.knobs.Add(fs, true)
	flags.AddRate(fs, &o.gpuRate)
	o.stores.Add(fs)
	fs.StringVar(&o.session, "session", "", "file to write the session to (default: in the state directory)")
	o.addMetrics(fs)
}

// addMetrics adds --metrics.
func (o *options) addMetrics(fs *pflag.FlagSet) {
	fs.StringVar(&o.metrics, "metrics", "", "hand numbers to Prometheus, at `PORT|FILE`: :9400 listens on this machine alone, a file is for node_exporter (default: nowhere)")
}

// addSubject adds the flags that say what is trained on what.
func (o *options) addSubject(fs *pflag.FlagSet) {
	fs.StringVar(&o.device, "device", "auto", "auto, cpu, cuda[:N] or emu:PRESET (gpustall doctor lists them)")
	o.Model.Add(fs)
	fs.StringVar(&o.data, "data", "", dataHelp)
	o.images.Add(fs)
}

// addScreen adds the flags of the screen.
func (o *options) addScreen(fs *pflag.FlagSet) {
	fs.IntVar(&o.fps, "fps", 10, "frames per second, 1 to 60")
	fs.StringVar(&o.theme, "theme", "default", knob.Choice(themes))
	fs.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	fs.BoolVar(&o.noColor, "no-color", false, "no colours (also NO_COLOR)")
	for _, name := range []string{"fps", "theme", "ascii", "no-color"} {
		flags.SetGroup(fs, name, flags.GroupScreen)
	}
}

// rate applies --lr to an optimizer that was chosen by name.
func (o *options) rate(k *train.Knobs) error {
	if o.lr == 0 || !k.Optimizer.Chosen {
		return nil
	}
	for _, word := range strings.Split(o.knobs.Text("optimizer"), ",") {
		if strings.HasPrefix(strings.TrimSpace(word), "lr=") {
			return cli.Refuse(fmt.Sprintf("--lr %g", o.lr), "the learning rate is in --optimizer too", "leave one of the two away")
		}
	}
	k.Optimizer.LR = o.lr
	return nil
}

// recipe returns the recipe of optimizer=auto.
func (o *options) recipe(m *nn.Model, k train.Knobs) nn.Recipe {
	if m == nil {
		return nn.Recipe{}
	}
	s := m.Recipe(k.Loader.BatchSize)
	if o.lr > 0 {
		s.LR = o.lr
	}
	return s
}

// check refuses flags that make no sense for any run.
func (o *options) check(*cobra.Command) error {
	if err := o.Model.Check(); err != nil {
		return err
	}
	if err := flags.CheckData(o.data); err != nil {
		return err
	}
	switch {
	case o.epochs < 0:
		return cli.Refuse(fmt.Sprintf("--epochs %d", o.epochs), "it is negative", "choose 0 (no limit) or more")
	case o.steps < 0:
		return cli.Refuse(fmt.Sprintf("--steps %d", o.steps), "it is negative", "choose 0 (no limit) or more")
	case !(o.lr >= 0) || math.IsInf(o.lr, 1):
		return cli.Refuse(fmt.Sprintf("--lr %g", o.lr), "not a positive number", "give one, or 0 for the default")
	case flags.CheckRate(o.gpuRate) != nil:
		return flags.CheckRate(o.gpuRate)
	case !(o.interval >= 0.05 && o.interval <= 3600):
		return cli.Refuse(fmt.Sprintf("--interval %g", o.interval), "out of range", "choose 0.05 to 3600 seconds")
	case o.images.Check() != nil:
		return o.images.Check()
	case o.keep.check() != nil:
		return o.keep.check()
	case o.ask.Check() != nil:
		return o.ask.Check()
	case o.fps < 1 || o.fps > 60:
		return cli.Refuse(fmt.Sprintf("--fps %d", o.fps), "out of range", "choose 1 to 60")
	case !slices.Contains(themes, o.theme):
		return cli.Refuse(fmt.Sprintf("--theme %q", o.theme), "there is no theme of that name", "choose "+knob.Choice(themes))
	}
	return nil
}
