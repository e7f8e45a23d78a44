package nn

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/kernels"
)

// Optimizer says how gradients change weights: a rule and its settings, in PyTorch's words
// and with PyTorch's defaults. As text it is the rule's name and, after commas, the
// settings that are not the defaults: "adamw,lr=0.0003,weight_decay=0.05". The zero value
// is "auto", the model's Recipe.
type Optimizer struct {
	Chosen bool // false for auto; the rest is then zero
	Rule   kernels.Rule
	Hyper
	WeightsOnly bool // weight decay leaves biases and norms alone
}

// AutoOptimizer is the text of the optimizer that nobody chose.
const AutoOptimizer = "auto"

// optimizer is a row of the table of optimizers.
type optimizer struct {
	rule     kernels.Rule
	help     string
	settings settings[Hyper]
}

func lr(v float64) setting[Hyper] {
	return setting[Hyper]{"lr", v, func(h *Hyper) *float64 { return &h.LR }, positive}
}
func momentum(v float64) setting[Hyper] {
	return setting[Hyper]{"momentum", v, func(h *Hyper) *float64 { return &h.Momentum }, fraction}
}
func decay(v float64) setting[Hyper] {
	return setting[Hyper]{"weight_decay", v, func(h *Hyper) *float64 { return &h.WeightDecay }, atLeast0}
}
func eps(v float64) setting[Hyper] {
	return setting[Hyper]{"eps", v, func(h *Hyper) *float64 { return &h.Eps }, atLeast0}
}
func squares(name string, v float64) setting[Hyper] {
	return setting[Hyper]{name, v, func(h *Hyper) *float64 { return &h.Squares }, fraction}
}

var betas = settings[Hyper]{
	{"beta1", 0.9, func(h *Hyper) *float64 { return &h.Momentum }, fraction},
	squares("beta2", 0.999),
}

// optimizers lists all optimizers. Each has a row here, a rule with its reference in
// kernels/rule.go, and kernels in kernels/cuda/optimizer.cu and kernels/cpu/elementwise.h.
var optimizers = []optimizer{
	{kernels.SGD, "SGD, plain", settings[Hyper]{lr(1e-3), decay(0)}},
	{kernels.Momentum, "SGD with momentum", settings[Hyper]{lr(1e-3), momentum(0.9), decay(0)}},
	{kernels.Nesterov, "SGD with Nesterov's momentum", settings[Hyper]{lr(1e-3), momentum(0.9), decay(0)}},
	{kernels.Adagrad, "Adagrad", settings[Hyper]{lr(1e-2), {"lr_decay", 0, func(h *Hyper) *float64 { return &h.LRDecay }, atLeast0}, decay(0), eps(1e-10)}},
	{kernels.Adadelta, "Adadelta", settings[Hyper]{lr(1), squares("rho", 0.9), decay(0), eps(1e-6)}},
	{kernels.Adam, "Adam", settings[Hyper]{lr(1e-3), betas[0], betas[1], decay(0), eps(1e-8)}},
	{kernels.AdamW, "AdamW: Adam with its weight decay apart", settings[Hyper]{lr(1e-3), betas[0], betas[1], decay(1e-2), eps(1e-8)}},
}

// OptimizerNames lists the names of optimizers, the default first.
func OptimizerNames() []string {
	names := []string{AutoOptimizer}
	for i := range optimizers {
		names = append(names, optimizers[i].rule.String())
	}
	return names
}

// OptimizerSettings lists the settings of the named optimizer with their defaults, as in
// "lr=0.001".
func OptimizerSettings(name string) []string {
	row := findOptimizer(name)
	if row == nil {
		return nil
	}
	return append(row.settings.list(), decayOf+"="+decayAll)
}

// The setting that says which parameters weight decay applies to.
const (
	decayOf      = "decay"
	decayAll     = "all"
	decayWeights = "weights" // not biases, nor the norms' weights
)

func findOptimizer(name string) *optimizer {
	for i := range optimizers {
		if optimizers[i].rule.String() == name {
			return &optimizers[i]
		}
	}
	return nil
}

// ParseOptimizer parses an Optimizer. Its error is an errs.Reason that names the word.
func ParseOptimizer(text string) (Optimizer, error) {
	name, rest, more := strings.Cut(text, ",")
	if name = strings.TrimSpace(name); name == AutoOptimizer && !more {
		return Optimizer{}, nil
	}
	row := findOptimizer(name)
	if row == nil {
		reason := fmt.Sprintf("there is no optimizer %q", name)
		if name == AutoOptimizer {
			reason = "auto has no settings: it takes what suits the model"
		}
		return Optimizer{}, errs.Reason(reason, "choose "+errs.Choice(OptimizerNames()))
	}
	o := Optimizer{Chosen: true, Rule: row.rule}
	row.settings.defaults(&o.Hyper)
	if !more {
		return o, nil
	}
	err := row.settings.read(name, rest, &o.Hyper, []string{decayOf}, func(_, value string) error {
		if value != decayAll && value != decayWeights {
			return errs.Reason(fmt.Sprintf("%s=%s is neither %s nor %s", decayOf, value, decayAll, decayWeights), "choose one of the two")
		}
		o.WeightsOnly = value == decayWeights
		return nil
	})
	return o, err
}

// String returns the text that ParseOptimizer parses.
func (o Optimizer) String() string {
	if !o.Chosen {
		return AutoOptimizer
	}
	b := []string{o.Rule.String()}
	b = findOptimizer(b[0]).settings.write(b, &o.Hyper)
	if o.WeightsOnly {
		b = append(b, decayOf+"="+decayWeights)
	}
	return strings.Join(b, ",")
}

// Torch returns the Python expression that makes the optimizer in PyTorch. model and lr are
// expressions too.
func (o Optimizer) Torch(model, lr string) string {
	class := map[kernels.Rule]string{kernels.Adagrad: "Adagrad", kernels.Adadelta: "Adadelta", kernels.Adam: "Adam", kernels.AdamW: "AdamW"}[o.Rule]
	if class == "" {
		class = "SGD"
	}
	params := model + ".parameters()"
	if o.WeightsOnly {
		params = fmt.Sprintf("[{\"params\": [p for p in %[1]s if p.dim() > 1]}, {\"params\": [p for p in %[1]s if p.dim() == 1], \"weight_decay\": 0.0}]", params)
	}
	words := []string{params, "lr=" + lr}
	for _, s := range findOptimizer(o.Rule.String()).settings {
		switch v := number(*s.field(&o.Hyper)); s.name {
		case "lr":
		case "beta1":
			words = append(words, "betas=("+v)
		case "beta2":
			words[len(words)-1] += ", " + v + ")"
		default:
			words = append(words, s.name+"="+v)
		}
	}
	if o.Rule == kernels.Nesterov {
		words = append(words, "nesterov=True")
	}
	return "torch.optim." + class + "(" + strings.Join(words, ", ") + ")"
}

// UnmarshalText makes an Optimizer a knob's value.
func (o *Optimizer) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOptimizer(string(text))
	return err
}
