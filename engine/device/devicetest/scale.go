package devicetest

import (
	"math/rand/v2"
	"slices"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// lossScale trains through a change of the loss scale, where the logits' gradients are the only ones.
// The update must not depend on the scale. That includes the step that doubles it, whose gradients
// still have the old scale.
func lossScale(r *rig) {
	const n, c, lr = 6, 10, 0.5
	for _, half := range []kernels.Type{kernels.F32, kernels.F16} {
		if !slices.Contains(r.dev.Info().Types, half.String()) {
			continue
		}
		xent := kernels.SoftmaxXent{N: n, C: c}
		host := Case{Op: xent, Fill: labels(c)}.inputs(xent.Args())
		hyper := kernels.Floats(host[4])
		clear(hyper)
		hyper[kernels.HyperLR], hyper[kernels.HyperLossScale], hyper[kernels.HyperBatches] = lr, 1, 1
		plain := make([]float32, n*c) // the gradient itself
		xent.Ref(kernels.Floats(host[0]), kernels.Ints(host[1]), make([]float32, 2), plain, hyper)

		hyper[kernels.HyperLossScale], hyper[kernels.HyperGradScale] = 1024, 1024
		hyper[kernels.HyperGrowth] = kernels.GrowthInterval - 2 // the second step doubles it
		bufs := make([]device.Buffer, len(host))
		for i := range host {
			bufs[i] = r.alloc(len(host[i]))
			r.put(bufs[i], host[i])
		}
		want := make([]float32, n*c)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range want {
			want[i] = float32(rng.NormFloat64())
		}
		w, m, dlogits := r.alloc(4*n*c), r.alloc(4*n*c), bufs[3]
		r.put(w, floatBytes(want))
		r.put(m, make([]byte, 4*n*c))
		sgd := device.Launch{Op: kernels.Optimizer{N: n * c, Copy: half}, Bufs: []device.Buffer{w, dlogits, m, bufs[4]}}
		if half != kernels.F32 {
			sgd.Bufs = append(sgd.Bufs, r.alloc(half.Size()*n*c))
		}
		p := r.prepare(
			device.Launch{Op: xent, Bufs: bufs},
			device.Launch{Op: kernels.ScaleCheck{N: n * c}, Bufs: []device.Buffer{dlogits, bufs[4]}},
			sgd)
		for step := range 4 {
			r.must(r.dev.Launch(r.main, p))
			for i := range want {
				want[i] -= lr * plain[i]
			}
			if err := Compare(kernels.Floats(r.get(w)), want, 1e-5); err != nil {
				r.Errorf("%s copy, step %d: %v", half, step, err)
			}
		}
		if v := kernels.Floats(r.get(bufs[4]))[kernels.HyperLossScale]; v != 2048 {
			r.Errorf("%s copy: the loss scale is %g, want 2048", half, v)
		}
	}
}
