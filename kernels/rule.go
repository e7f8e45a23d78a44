package kernels

// Rule is one of PyTorch's optimizers: how new weights follow from gradients. Formulas, settings
// and state have PyTorch's names.
type Rule uint8

const (
	Momentum Rule = iota
	SGD
	Nesterov
	Adagrad
	Adadelta
	Adam
	AdamW
)

// rule describes a Rule. The names and defaults of its settings are in engine/train/nn.
type rule struct {
	name   string
	slots  []string // PyTorch's names of what it keeps for each parameter; zeros at first
	counts bool     // it needs the number of the update
	flops  float64  // operations for each element
	// update returns the weight w after gradient g and changes its slots.
	update func(s *settings, w, g float64, slots []float64) float64
}

var rules = [...]rule{
	Momentum: momentum,
	SGD:      sgd,
	Nesterov: nesterov,
	Adagrad:  adagrad,
	Adadelta: adadelta,
	Adam:     adam,
	AdamW:    adamw,
}

// MaxSlots bounds the slots of a rule.
const MaxSlots = 2

// Rules returns all rules.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i := range all {
		all[i] = Rule(i)
	}
	return all
}

func (r Rule) row() *rule     { return &rules[r] }
func (r Rule) String() string { return rules[r].name }

// Slots returns PyTorch's names of what the rule keeps for each parameter.
func (r Rule) Slots() []string { return rules[r].slots }

// Counts reports whether an update changes the hyper buffer: HyperStep and what
// follows from it.
func (r Rule) Counts() bool { return rules[r].counts }

// Count counts an update that is about to be made. HyperFilled1 and HyperFilled2 are updated
// like averages of ones: so they stay right when a coefficient changes, and lose no digits.
func (r Rule) Count(hyper []float32) {
	if !r.Counts() {
		return
	}
	hyper[HyperStep]++
	hyper[HyperFilled1] += (1 - hyper[HyperFilled1]) * (1 - hyper[HyperMomentum])
	hyper[HyperFilled2] += (1 - hyper[HyperFilled2]) * hyper[HyperFresh]
}

// settings are the values of a hyper buffer, in the precision of the references.
type settings struct {
	lr, momentum, decay, scale float64
	step, filled1, filled2     float64 // of this update
	fresh, eps, lrDecay        float64
}

func settingsOf(hyper []float32) settings {
	at := func(i int) float64 { return float64(hyper[i]) }
	return settings{
		lr: at(HyperLR), momentum: at(HyperMomentum), decay: at(HyperWeightDecay), scale: at(HyperGradScale) * at(HyperBatches),
		step: at(HyperStep), filled1: at(HyperFilled1), filled2: at(HyperFilled2),
		fresh: at(HyperFresh), eps: at(HyperEps), lrDecay: at(HyperLRDecay),
	}
}
