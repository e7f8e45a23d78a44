package devicetest

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// gradient checks a backward operation against its forward one on the same device. For
// a random direction v, the derivative of L = <dy, f(x)> along v must be <dx, v>. The
// derivative is taken from two forward passes.
type gradient struct {
	name     string
	forward  kernels.Op
	fill     func(*rand.Rand, [][]byte)
	out      int // the forward argument that holds f(x)
	backward kernels.Op
	from     map[int]int // backward argument <- forward argument
	dy       int         // the backward argument that is dy
	wrt      map[int]int // backward argument (a gradient) -> forward argument it is taken for
	step     float64     // of the difference; small where f has kinks
	tol      float64
}

func gradients() []gradient {
	conv := kernels.Conv{N: 2, H: 7, W: 6, C: 8, K: 12, R: 3, S: 3, Stride: 2, Pad: 1}
	linear := kernels.Linear{N: 5, In: 24, Out: 10}
	pool := kernels.MaxPool{N: 2, H: 9, W: 8, C: 4, Size: 3, Stride: 2, Pad: 1}
	avg := kernels.AvgPool{N: 3, H: 4, W: 5, C: 6}
	bn := func(relu, residual bool) gradient {
		g := gradient{
			forward:  kernels.BatchNormForward{Rows: 60, C: 7, Eps: 1e-5, Momentum: 0.1, Train: true, ReLU: relu, Residual: residual},
			out:      1,
			backward: kernels.BatchNormBackward{Rows: 60, C: 7, ReLU: relu, Residual: residual},
			from:     map[int]int{1: 0, 2: 1, 3: 2, 4: 6, 5: 7}, dy: 0,
			wrt: map[int]int{6: 0, 7: 2, 8: 3}, step: 2e-4, tol: 2e-2,
		}
		g.name = "batchnorm"
		if residual {
			g.name += "+residual"
			g.wrt[9] = 8
		}
		if relu {
			g.name += "+relu"
		}
		return g
	}
	return []gradient{
		{name: "conv data", forward: kernels.ConvForward{Conv: conv}, out: 2,
			backward: kernels.ConvBackwardData{Conv: conv}, from: map[int]int{1: 1}, dy: 0, wrt: map[int]int{2: 0}, step: 0.5, tol: 1e-3},
		{name: "conv weight", forward: kernels.ConvForward{Conv: conv, Bias: true}, out: 2,
			backward: kernels.ConvBackwardWeight{Conv: conv, Bias: true}, from: map[int]int{0: 0}, dy: 1, wrt: map[int]int{2: 1, 3: 3}, step: 0.5, tol: 1e-3},
		{name: "linear", forward: linear, out: 2,
			backward: kernels.LinearBackward{Linear: linear}, from: map[int]int{1: 0, 2: 1}, dy: 0, wrt: map[int]int{3: 0, 4: 1, 5: 3}, step: 0.5, tol: 1e-3},
		bn(false, false), bn(true, false), bn(false, true), bn(true, true),
		{name: "maxpool", forward: pool, out: 1,
			backward: kernels.MaxPoolBackward{MaxPool: pool}, from: map[int]int{1: 2}, dy: 0, wrt: map[int]int{2: 0}, step: 2e-4, tol: 2e-2},
		{name: "avgpool", forward: avg, out: 1,
			backward: kernels.AvgPoolBackward{AvgPool: avg}, dy: 0, wrt: map[int]int{1: 0}, step: 0.5, tol: 1e-3},
	}
}

// runOp runs op once on copies of host and returns all its buffers.
func (r *rig) runOp(op kernels.Op, host [][]byte) [][]byte {
	r.Helper()
	bufs := make([]device.Buffer, len(host))
	for i, h := range host {
		bufs[i] = r.alloc(len(h))
		r.put(bufs[i], h)
	}
	p := r.prepare(device.Launch{Op: op, Bufs: bufs})
	r.must(r.dev.Launch(r.main, p))
	out := make([][]byte, len(host))
	for i := range bufs {
		out[i] = r.get(bufs[i])
	}
	return out
}

func (g gradient) check(r *rig) {
	rng := rand.New(rand.NewPCG(3, 4))
	in := Case{Op: g.forward, Fill: g.fill}.inputs(g.forward.Args())
	fwd := r.runOp(g.forward, in)
	back := Case{Op: g.backward}.inputs(g.backward.Args())
	for b, f := range g.from {
		src := in[f]
		if g.forward.Args()[f].Role != kernels.In {
			src = fwd[f]
		}
		copy(back[b], src)
	}
	dy := kernels.Floats(back[g.dy])
	for i := range dy { // not the values that x was filled with
		dy[i] = float32(rng.NormFloat64())
	}
	grads := r.runOp(g.backward, back)

	loss := func(bufs [][]byte) float64 {
		var sum float64
		for i, v := range kernels.Floats(bufs[g.out]) {
			sum += float64(v) * float64(dy[i])
		}
		return sum
	}
	for _, b := range slices.Sorted(maps.Keys(g.wrt)) {
		f := g.wrt[b]
		x := kernels.Floats(in[f])
		v := make([]float32, len(x))
		var norm float64
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		keep := append([]float32(nil), x...)
		at := func(h float64) float64 {
			for i := range x {
				x[i] = keep[i] + float32(h)*v[i]
			}
			l := loss(r.runOp(g.forward, in))
			copy(x, keep)
			return l
		}
		numeric := (at(g.step) - at(-g.step)) / (2 * g.step)
		var analytic float64
		for i, d := range kernels.Floats(grads[b]) {
			analytic += float64(d) * float64(v[i])
			norm += float64(d) * float64(d)
		}
		// |<dx,v>| is about the norm of dx for a random v.
		if err := math.Abs(numeric - analytic); !(err <= g.tol*math.Sqrt(norm)) {
			r.Errorf("%s: derivative along a random direction is %.6g, the gradient says %.6g (norm %.4g)",
				g.backward.Args()[b].Name, numeric, analytic, math.Sqrt(norm))
		}
	}
}
