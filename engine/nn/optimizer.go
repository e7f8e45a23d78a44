package nn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/fault"
	"dev.gpustall/kernels"
)

// Optimizer is how weights are made of gradients: a rule and its settings, in PyTorch's
// words and with PyTorch's defaults. As text it is the rule's name and, behind commas,
// the settings that are not the defaults: "adamw,lr=0.0003,weight_decay=0.05". The zero
// value is "auto": the model's Recipe.
type Optimizer struct {
	Chosen bool // by name; otherwise the rest is zero
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
	settings []setting
}

// setting is one number of an optimizer, and its default.
type setting struct {
	name    string
	value   float64
	field   func(h *Hyper) *float64
	allowed limits
}

// limits are what a setting may be.
type limits struct {
	most float64 // itself excluded; 0: no limit
	zero bool    // 0 is allowed
}

var (
	positive = limits{}
	atLeast0 = limits{zero: true}
	fraction = limits{zero: true, most: 1}
)

func lr(v float64) setting {
	return setting{"lr", v, func(h *Hyper) *float64 { return &h.LR }, positive}
}
func momentum(v float64) setting {
	return setting{"momentum", v, func(h *Hyper) *float64 { return &h.Momentum }, fraction}
}
func decay(v float64) setting {
	return setting{"weight_decay", v, func(h *Hyper) *float64 { return &h.WeightDecay }, atLeast0}
}
func eps(v float64) setting {
	return setting{"eps", v, func(h *Hyper) *float64 { return &h.Eps }, atLeast0}
}
func squares(name string, v float64) setting {
	return setting{name, v, func(h *Hyper) *float64 { return &h.Squares }, fraction}
}

var betas = []setting{
	{"beta1", 0.9, func(h *Hyper) *float64 { return &h.Momentum }, fraction},
	squares("beta2", 0.999),
}

// optimizers is all there is to choose from: one is its row here, its rule in
// kernels/rule.go with the reference, and the kernels in kernels/cuda/optimizer.cu and
// kernels/cpu/elementwise.h.
var optimizers = []optimizer{
	{kernels.SGD, "SGD, plain", []setting{lr(1e-3), decay(0)}},
	{kernels.Momentum, "SGD with momentum", []setting{lr(1e-3), momentum(0.9), decay(0)}},
	{kernels.Nesterov, "SGD with Nesterov's momentum", []setting{lr(1e-3), momentum(0.9), decay(0)}},
	{kernels.Adagrad, "Adagrad", []setting{lr(1e-2), {"lr_decay", 0, func(h *Hyper) *float64 { return &h.LRDecay }, atLeast0}, decay(0), eps(1e-10)}},
	{kernels.Adadelta, "Adadelta", []setting{lr(1), squares("rho", 0.9), decay(0), eps(1e-6)}},
	{kernels.Adam, "Adam", []setting{lr(1e-3), betas[0], betas[1], decay(0), eps(1e-8)}},
	{kernels.AdamW, "AdamW: Adam with its weight decay apart", []setting{lr(1e-3), betas[0], betas[1], decay(1e-2), eps(1e-8)}},
}

// OptimizerNames lists what an Optimizer may be called, the default first.
func OptimizerNames() []string {
	names := []string{AutoOptimizer}
	for i := range optimizers {
		names = append(names, optimizers[i].rule.String())
	}
	return names
}

// OptimizerSettings lists what the optimizer of a name may be given, as "lr=0.001" with
// its default.
func OptimizerSettings(name string) []string {
	row := findOptimizer(name)
	if row == nil {
		return nil
	}
	var out []string
	for _, s := range row.settings {
		out = append(out, s.name+"="+number(s.value))
	}
	return append(out, decayOf+"="+decayAll)
}

// The setting that says what weight decay is for.
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

// ParseOptimizer reads an Optimizer. Its error is a fault.Reason that names the word.
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
		return Optimizer{}, fault.Reason(reason, "choose "+choice(OptimizerNames()))
	}
	o := Optimizer{Chosen: true, Rule: row.rule}
	for i := range row.settings {
		s := &row.settings[i]
		*s.field(&o.Hyper) = s.value
	}
	seen := map[string]bool{}
	for more {
		var word string
		word, rest, more = strings.Cut(rest, ",")
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case !ok:
			return o, fault.Reason(fmt.Sprintf("%q is no setting", word), fmt.Sprintf("write NAME=VALUE with one of %s", names(row)))
		case seen[key]:
			return o, fault.Reason(fmt.Sprintf("%s is there twice", key), "say it once")
		}
		seen[key] = true
		if err := row.set(&o, key, value); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (row *optimizer) set(o *Optimizer, key, value string) error {
	if key == decayOf {
		if value != decayAll && value != decayWeights {
			return fault.Reason(fmt.Sprintf("%s=%s is neither %s nor %s", decayOf, value, decayAll, decayWeights), "choose one of the two")
		}
		o.WeightsOnly = value == decayWeights
		return nil
	}
	for i := range row.settings {
		if s := &row.settings[i]; s.name == key {
			v, err := s.allowed.read(key, value)
			*s.field(&o.Hyper) = v
			return err
		}
	}
	return fault.Reason(fmt.Sprintf("%s has no setting %q", row.rule, key), "it takes "+names(row))
}

// read is the number that value says, or a reason that names key.
func (l limits) read(key, value string) (float64, error) {
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fault.Reason(fmt.Sprintf("%s=%s is not a number", key, value), "write one as in 0.001 or 3e-4")
	case v < 0 || v == 0 && !l.zero || l.most > 0 && v >= l.most:
		return 0, fault.Reason(fmt.Sprintf("%s=%s is out of range", key, value), "choose "+l.String())
	}
	return v, nil
}

func (l limits) String() string {
	switch {
	case l.most > 0:
		return fmt.Sprintf("0 or more, and less than %g", l.most)
	case l.zero:
		return "0 or more"
	}
	return "more than 0"
}

// names are those of a row's settings.
func names(row *optimizer) string {
	var out []string
	for _, s := range row.settings {
		out = append(out, s.name)
	}
	return choice(append(out, decayOf))
}

// choice lists words to choose from: "a, b or c".
func choice(words []string) string {
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

// String is what ParseOptimizer reads.
func (o Optimizer) String() string {
	if !o.Chosen {
		return AutoOptimizer
	}
	b := []string{o.Rule.String()}
	for _, s := range findOptimizer(b[0]).settings {
		if v := *s.field(&o.Hyper); v != s.value {
			b = append(b, s.name+"="+number(v))
		}
	}
	if o.WeightsOnly {
		b = append(b, decayOf+"="+decayWeights)
	}
	return strings.Join(b, ",")
}

// Torch is the expression that makes the optimizer of a model in PyTorch, with a learning
// rate that is an expression too.
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

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
