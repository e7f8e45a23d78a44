package kernels

import "math"

// Hyper-parameters live in device memory, so that they change without a new
// plan or a new capture. Indices into the hyper buffer:
const (
	HyperLR          = iota
	HyperMomentum    // SGD's; Adam's beta1
	HyperWeightDecay // PyTorch's weight_decay
	HyperLossScale   // SoftmaxXent multiplies dlogits by it
	HyperSkip        // an Optimizer does nothing when non-zero: a gradient overflowed
	HyperGrowth      // good steps since the loss scale last changed
	HyperGradScale   // the loss scale that the gradients were computed with; an Optimizer divides by it
	HyperStep        // updates of a rule that counts them
	HyperFilled1     // 1 - beta1^step: the weights in Adam's average of gradients add up to it
	HyperFilled2     // 1 - beta2^step: the same of its average of squares
	HyperBatches     // the number of batches whose gradients are summed; an Optimizer divides by it
	HyperFresh       // the new value's weight in an average of squares: 1-beta2, 1-rho
	HyperEps         // added to divisors, which may be zero
	HyperLRDecay     // Adagrad's
	HyperLen         = 16
)

// Optimizer updates all parameters of a model at once by a rule. The gradient it uses is
// grad/(HyperGradScale*HyperBatches). Weight decay does not apply to the last Exempt elements.
// When Copy is a 16-bit type, the updated weights are also written in it.
// Buffers: w, grad, the rule's slots (all float32), hyper, and the copy when Copy != F32.
type Optimizer struct {
	Rule   Rule
	N      int
	Exempt int
	Copy   Type
}

func (op Optimizer) Name() string   { return op.Rule.String() }
func (op Optimizer) FLOPs() float64 { return op.Rule.row().flops * float64(op.N) }
func (op Optimizer) Bytes() float64 { return traffic(op.Args()) }

func (op Optimizer) Args() []Arg {
	args := []Arg{{"w", InOut, F32, op.N}, {"grad", In, F32, op.N}}
	for _, slot := range op.Rule.Slots() {
		args = append(args, Arg{slot, InOut, F32, op.N})
	}
	hyper := Arg{"hyper", In, F32, HyperLen}
	if op.Rule.Counts() {
		hyper.Role = InOut
	}
	args = append(args, hyper)
	if op.Copy != F32 {
		args = append(args, Arg{"copy", Out, op.Copy, op.N})
	}
	return args
}

func (op Optimizer) Reference(bufs [][]byte) {
	slots := len(op.Rule.Slots())
	w, hyper := Floats(bufs[0]), Floats(bufs[2+slots])
	state := make([][]float32, slots)
	for i := range state {
		state[i] = Floats(bufs[2+i])
	}
	op.Ref(w, Floats(bufs[1]), state, hyper)
	if op.Copy != F32 && hyper[HyperSkip] == 0 {
		Store(bufs[3+slots], op.Copy, w[:op.N])
	}
}

// Ref updates each element by the rule, unless the step is to be skipped.
func (op Optimizer) Ref(w, grad []float32, slots [][]float32, hyper []float32) {
	if hyper[HyperSkip] != 0 {
		return
	}
	op.Rule.Count(hyper)
	s := settingsOf(hyper)
	update := op.Rule.row().update
	var state [MaxSlots]float64
	for i := range op.N {
		if i == op.N-op.Exempt {
			s.decay = 0
		}
		for j := range slots {
			state[j] = float64(slots[j][i])
		}
		w[i] = float32(update(&s, float64(w[i]), float64(grad[i])/s.scale, state[:]))
		for j := range slots {
			slots[j][i] = float32(state[j])
		}
	}
}

// ScaleCheck looks for non-finite gradients and sets HyperSkip where there are any. It copies
// the loss scale of these gradients to HyperGradScale, for the optimizer. Then it adapts the
// loss scale as PyTorch's GradScaler does: halved on overflow, doubled after 2000 good steps.
// A model without a ScaleCheck sets HyperGradScale to HyperLossScale.
// Buffers: grad (float32[N]), hyper.
type ScaleCheck struct{ N int }

// GrowthInterval is the number of good steps after which the loss scale doubles.
const GrowthInterval = 2000

func (op ScaleCheck) Name() string   { return "scale_check" }
func (op ScaleCheck) FLOPs() float64 { return float64(op.N) }
func (op ScaleCheck) Bytes() float64 { return traffic(op.Args()) }

func (op ScaleCheck) Args() []Arg {
	return []Arg{{"grad", In, F32, op.N}, {"hyper", InOut, F32, HyperLen}}
}

func (op ScaleCheck) Reference(bufs [][]byte) { op.Ref(Floats(bufs[0]), Floats(bufs[1])) }

// Ref keeps the gradients' scale for the optimizer. It sets HyperSkip to 1 and halves the
// loss scale when a gradient is not finite; otherwise it clears HyperSkip and
// counts towards doubling the loss scale.
func (op ScaleCheck) Ref(grad, hyper []float32) {
	finite := true
	for _, g := range grad[:op.N] {
		if math.IsNaN(float64(g)) || math.IsInf(float64(g), 0) {
			finite = false
		}
	}
	hyper[HyperGradScale] = hyper[HyperLossScale]
	if !finite {
		hyper[HyperSkip] = 1
		hyper[HyperLossScale] *= 0.5
		hyper[HyperGrowth] = 0
		return
	}
	hyper[HyperSkip] = 0
	hyper[HyperGrowth]++
	if hyper[HyperGrowth] >= GrowthInterval {
		hyper[HyperLossScale] *= 2
		hyper[HyperGrowth] = 0
	}
}
