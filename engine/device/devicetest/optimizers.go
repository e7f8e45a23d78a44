package devicetest

import (
	_ "embed"
	"encoding/json"

	"dev.gpustall/engine/base/splitmix"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// rulesJSON is the weights that PyTorch's optimizers arrive at from a few weights, with its defaults
// and with other settings. testdata/nn/make_optimizers.py wrote it.
//
//go:embed rules.json
var rulesJSON []byte

type pytorchRules struct {
	Steps int
	Runs  []struct {
		Rule     string
		Settings map[string]float64
		Weights  []float64
	}
}

// optimizers makes the same updates as PyTorch, from the same weights, with gradients that
// follow from the weights.
func optimizers(r *rig) {
	var golden pytorchRules
	if err := json.Unmarshal(rulesJSON, &golden); err != nil {
		r.Fatal(err)
	}
	tested := map[kernels.Rule]bool{}
	for _, run := range golden.Runs {
		rule := kernels.Momentum
		for _, k := range kernels.Rules() {
			if k.String() == run.Rule {
				rule = k
			}
		}
		tested[rule] = true
		n := len(run.Weights)
		op := kernels.Optimizer{Rule: rule, N: n}
		launch := device.Launch{Op: op}
		for _, a := range op.Args() {
			b := r.alloc(a.Size())
			r.put(b, make([]byte, a.Size()))
			launch.Bufs = append(launch.Bufs, b)
		}
		w, grad := launch.Bufs[0], launch.Bufs[1]
		r.put(launch.Bufs[2+len(rule.Slots())], floatBytes(hyperOf(run.Settings)))
		r.put(w, floatBytes(uniform(1, n, 1)))
		target := uniform(2, n, 1)
		p := r.prepare(launch)
		for step := range golden.Steps {
			g := uniform(splitmix.Source(100+step), n, 0.5)
			for i, at := range kernels.Floats(r.get(w)) {
				g[i] += at - target[i]
			}
			r.put(grad, floatBytes(g))
			r.must(r.dev.Launch(r.main, p))
		}
		want := make([]float32, n)
		for i, v := range run.Weights {
			want[i] = float32(v)
		}
		if err := Compare(kernels.Floats(r.get(w)), want, 1e-5); err != nil {
			r.Errorf("%s %v after %d steps: %v", run.Rule, run.Settings, golden.Steps, err)
		}
		r.dev.Release(p)
	}
	if len(tested) != len(kernels.Rules()) {
		r.Errorf("PyTorch's results are there for %d of %d rules", len(tested), len(kernels.Rules()))
	}
}

// hyperOf returns PyTorch's settings of a parameter group as a hyper buffer.
func hyperOf(settings map[string]float64) []float32 {
	h := make([]float32, kernels.HyperLen)
	h[kernels.HyperGradScale], h[kernels.HyperBatches] = 1, 1
	for name, v := range settings {
		switch name {
		case "lr":
			h[kernels.HyperLR] = float32(v)
		case "momentum", "beta1":
			h[kernels.HyperMomentum] = float32(v)
		case "weight_decay":
			h[kernels.HyperWeightDecay] = float32(v)
		case "beta2", "rho":
			h[kernels.HyperFresh] = float32(1 - v)
		case "eps":
			h[kernels.HyperEps] = float32(v)
		case "lr_decay":
			h[kernels.HyperLRDecay] = float32(v)
		}
	}
	return h
}

// uniform returns n numbers in [-bound, bound), as testdata/nn/make_goldens.py draws them.
func uniform(seed splitmix.Source, n int, bound float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32((2*seed.Float64() - 1) * bound)
	}
	return v
}
