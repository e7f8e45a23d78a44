package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/train/nn"
)

// Model are the flags that say which model is trained.
type Model struct {
	Name        string
	Stem        string
	NoBatchNorm Switch
}

// The help of the flags.
var (
	ModelHelp = strings.Join(nn.Names(), ", ") + " (default: cnn on the cpu, resnet18 elsewhere, cnn3d for clips)"
	StemHelp  = "of a ResNet, " + knob.Choice(nn.Stems()) + ": 3x3, or 7x7 with stride 2 and a max-pool (default: what suits the images' size)"
)

// BatchNormHelp is the help of --batch-norm.
const BatchNormHelp = "off: a ResNet whose convolutions have a bias and no batch norm"

// BatchNorm is the flag, and OldBatchNorm its former name, which says the opposite and goes on for one version, hidden.
const (
	BatchNorm    = "batch-norm"
	OldBatchNorm = "no-batch-norm"
)

// with is the flag that says the opposite of a switch.
type with struct{ without *Switch }

func (w with) String() string {
	if w.without == nil { // pflag asks a zero value for the default
		return ""
	}
	return knob.Switch(!bool(*w.without))
}
func (w with) Type() string { return switchType }

func (w with) Set(text string) error { return w.without.Set(knob.Opposite(text)) }

// Add adds the flags.
func (f *Model) Add(fs *pflag.FlagSet) {
	fs.StringVar(&f.Name, "model", "", ModelHelp)
	fs.StringVar(&f.Stem, "stem", "", StemHelp)
	fs.VarPF(with{&f.NoBatchNorm}, BatchNorm, "", BatchNormHelp).NoOptDefVal = "on"
	before := fs.VarPF(&f.NoBatchNorm, OldBatchNorm, "", BatchNormHelp)
	before.NoOptDefVal, before.Hidden = "on", true
}

// Check refuses models and stems that do not exist.
func (f *Model) Check() error {
	for _, s := range f.Settings() {
		if err := CheckModel(s.Name, s.Value); err != nil {
			return cli.Misuse(err)
		}
	}
	return nil
}

// Settings returns what was chosen, as settings of sweeps and labs.
func (f *Model) Settings() (chosen []knob.Setting) {
	for _, s := range []knob.Setting{{Name: sweep.Model, Value: f.Name}, {Name: sweep.Stem, Value: f.Stem}} {
		if s.Value != "" {
			chosen = append(chosen, s)
		}
	}
	if f.NoBatchNorm {
		chosen = append(chosen, knob.Setting{Name: sweep.NoBatchNorm, Value: "on"})
	}
	return chosen
}

// Chosen returns Settings, with the name of m if none was given.
func (f *Model) Chosen(m *nn.Model) []knob.Setting {
	of := *f
	if m != nil {
		of.Name = m.Name
	}
	return of.Settings()
}

// Take sets the flags to the settings that were chosen.
func (f *Model) Take(chosen []knob.Setting) {
	f.Name, f.Stem = knob.ValueOf(chosen, sweep.Model), knob.ValueOf(chosen, sweep.Stem)
	f.NoBatchNorm = Switch(knob.On(knob.ValueOf(chosen, sweep.NoBatchNorm)))
}

// CheckModel refuses a value of a setting that says which model is trained.
func CheckModel(name, value string) error {
	words, what := []string{"off", "on"}, "it is neither on nor off"
	switch name {
	case sweep.Model:
		words, what = nn.Names(), "there is no model of that name"
	case sweep.Stem:
		words, what = nn.Stems(), "there is no stem of that name"
	}
	if !slices.Contains(words, value) {
		return errs.New("set", fmt.Sprintf("%s=%q", name, value), what, "choose "+knob.Choice(words))
	}
	return nil
}

// Switch is a flag that takes on or off. Given without a value it is on.
type Switch bool

func (s *Switch) String() string { return knob.Switch(bool(*s)) }
func (s *Switch) Type() string   { return switchType }

func (s *Switch) Set(text string) error {
	switch text {
	case "on", "true":
		*s = true
	case "off", "false":
		*s = false
	default:
		return errs.Reason("it is neither on nor off", "choose on or off")
	}
	return nil
}
