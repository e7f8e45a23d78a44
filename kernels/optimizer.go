package kernels

import "math"

// Hyper-parameters live in device memory, so that they change without a new
// plan or a new capture. Indices into the hyper buffer:
const (
	HyperLR = iota
	HyperMomentum
	HyperWeightDecay
	HyperLossScale // SoftmaxXent multiplies dlogits by it
	HyperSkip      // SGD does nothing when non-zero: a gradient overflowed
	HyperGrowth    // good steps since the loss scale last changed
	HyperGradScale // the loss scale that the gradients were computed with; SGD divides by it
	HyperLen       = 8
)

// SGD is PyTorch's: g = grad/scale + decay*w; m = momentum*m + g; w -= lr*m, with
// scale in HyperGradScale.
// When Copy is a 16-bit type, the updated weights are also written in it.
// Buffers: w, grad, momentum (all float32), hyper, and the copy when Copy != F32.
type SGD struct {
	N    int
	Copy Type
}

func (op SGD) Name() string   { return "sgd" }
func (op SGD) FLOPs() float64 { return 7 * float64(op.N) }
func (op SGD) Bytes() float64 { return traffic(op.Args()) }

func (op SGD) Args() []Arg {
	args := []Arg{{"w", InOut, F32, op.N}, {"grad", In, F32, op.N}, {"momentum", InOut, F32, op.N}, {"hyper", In, F32, HyperLen}}
	if op.Copy != F32 {
		args = append(args, Arg{"copy", Out, op.Copy, op.N})
	}
	return args
}

func (op SGD) Reference(bufs [][]byte) {
	w, hyper := Floats(bufs[0]), Floats(bufs[3])
	op.Ref(w, Floats(bufs[1]), Floats(bufs[2]), hyper)
	if op.Copy != F32 && hyper[HyperSkip] == 0 {
		Store(bufs[4], op.Copy, w[:op.N])
	}
}

// Ref computes g = grad/scale + decay*w, m = momentum*m + g, w -= lr*m, unless
// the step is to be skipped.
func (op SGD) Ref(w, grad, m, hyper []float32) {
	if hyper[HyperSkip] != 0 {
		return
	}
	lr, mu := float64(hyper[HyperLR]), float64(hyper[HyperMomentum])
	decay, scale := float64(hyper[HyperWeightDecay]), float64(hyper[HyperGradScale])
	for i := range op.N {
		v := mu*float64(m[i]) + float64(grad[i])/scale + decay*float64(w[i])
		m[i] = float32(v)
		w[i] = float32(float64(w[i]) - lr*v)
	}
}

// ScaleCheck looks for non-finite gradients, sets HyperSkip, keeps the loss scale
// they were computed with in HyperGradScale for SGD, and adapts the loss scale for
// the next ones: halved on overflow, doubled after 2000 good steps (PyTorch's
// GradScaler). Without it, HyperGradScale is to be HyperLossScale.
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

// Ref keeps the gradients' scale for SGD. It sets HyperSkip to 1 and halves the
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
