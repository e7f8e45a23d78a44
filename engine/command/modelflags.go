package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/train/nn"
)

// modelFlags say which model is trained.
type modelFlags struct {
	model       string
	stem        string
	noBatchNorm switchFlag
}

// What the help says of them.
var (
	modelHelp = strings.Join(nn.Names(), ", ") + " (default: cnn on the cpu, resnet18 elsewhere, cnn3d for clips)"
	stemHelp  = "of a ResNet, " + knob.Choice(nn.Stems()) + ": 3x3, or 7x7 with stride 2 and a max-pool (default: what suits the images' size)"
)

const plainHelp = "a ResNet whose convolutions have a bias and no batch norm"

func (f *modelFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.model, "model", "", modelHelp)
	fs.StringVar(&f.stem, "stem", "", stemHelp)
	fs.VarPF(&f.noBatchNorm, "no-batch-norm", "", plainHelp).NoOptDefVal = "on"
}

// check refuses what is no model's.
func (f *modelFlags) check() error {
	for _, s := range f.settings() {
		if err := checkModel(s.Name, s.Value); err != nil {
			return misuse(err)
		}
	}
	return nil
}

// settings are what was chosen, as a sweep and a lab keep it.
func (f *modelFlags) settings() (chosen []knob.Setting) {
	for _, s := range []knob.Setting{{Name: sweep.Model, Value: f.model}, {Name: sweep.Stem, Value: f.stem}} {
		if s.Value != "" {
			chosen = append(chosen, s)
		}
	}
	if f.noBatchNorm {
		chosen = append(chosen, knob.Setting{Name: sweep.NoBatchNorm, Value: "on"})
	}
	return chosen
}

// chosen is settings with the name of the model that it came to, where none was given.
func (f *modelFlags) chosen(m *nn.Model) []knob.Setting {
	of := *f
	if m != nil {
		of.model = m.Name
	}
	return of.settings()
}

// take sets what settings says.
func (f *modelFlags) take(chosen []knob.Setting) {
	f.model, f.stem = knob.ValueOf(chosen, sweep.Model), knob.ValueOf(chosen, sweep.Stem)
	f.noBatchNorm = switchFlag(knob.On(knob.ValueOf(chosen, sweep.NoBatchNorm)))
}

// checkModel refuses a value of what says which model is trained.
func checkModel(name, value string) error {
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

// switchFlag is a flag that is on, off, or alone, which means on.
type switchFlag bool

func (s *switchFlag) String() string { return knob.Switch(bool(*s)) }
func (s *switchFlag) Type() string   { return switchType }

func (s *switchFlag) Set(text string) error {
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
