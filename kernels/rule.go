package kernels

// Rule is how an optimizer makes new weights of gradients: one of PyTorch's, whose
// formulas and names of settings and state it has.
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

// rule is all that is to be said of a Rule here. What its settings are called, and what
// they are when nobody chose, is in engine/train/nn.
type rule struct {
	name   string
	slots  []string // PyTorch's names of what it keeps for each parameter, zeros at first
	counts bool     // it needs the number of the update
	flops  float64  // of an element
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

// Rules lists all there are.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i := range all {
		all[i] = Rule(i)
	}
	return all
}

func (r Rule) row() *rule     { return &rules[r] }
func (r Rule) String() string { return rules[r].name }

// Slots are the names of what the rule keeps for each parameter.
func (r Rule) Slots() []string { return rules[r].slots }

// Counts reports whether an update changes the hyper buffer: HyperStep and what
// follows from it.
func (r Rule) Counts() bool { return rules[r].counts }

// Count counts an update that is about to be made. What is filled of an average is the
// average of ones: it stays right when its coefficient changes, and loses no digits.
func (r Rule) Count(hyper []float32) {
	if !r.Counts() {
		return
	}
	hyper[HyperStep]++
	hyper[HyperFilled1] += (1 - hyper[HyperFilled1]) * (1 - hyper[HyperMomentum])
	hyper[HyperFilled2] += (1 - hyper[HyperFilled2]) * hyper[HyperFresh]
}

// settings are a hyper buffer's, as a reference computes with them.
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
