package nn

import "math"

// Hyper holds an optimizer's settings, in PyTorch's words. An optimizer uses some of
// them.
type Hyper struct {
	LR          float64
	Momentum    float64 // Adam's beta1
	WeightDecay float64
	Squares     float64 // how much an average of squares keeps: Adam's beta2, Adadelta's rho
	Eps         float64
	LRDecay     float64
}

// Recipe holds the settings that train a model well when nobody chose any. They are SGD
// with momentum, and a learning rate that warms up linearly to the constant Hyper.LR.
// Warm-up keeps the first large steps of a momentum run from diverging (Goyal et al.,
// "Accurate, large minibatch SGD", 2017).
type Recipe struct {
	Hyper
	Warmup int // steps
}

// At returns the settings of step, counted from 0.
func (s Recipe) At(step int) Hyper {
	h := s.Hyper
	if step < s.Warmup {
		h.LR *= float64(step+1) / float64(s.Warmup)
	}
	return h
}

// Recipe returns settings that train m well with batches of so many samples. They are
// the usual CIFAR recipe (momentum 0.9, weight decay 5e-4) with a learning rate for 128
// samples, scaled linearly to smaller batches. Models without batch norm take a smaller
// rate.
func (m *Model) Recipe(samples int) Recipe {
	lr, warmup := 0.1, 100
	if len(m.stats) == 0 {
		lr, warmup = 0.05, 50
	}
	lr *= math.Min(1, float64(samples)/128)
	return Recipe{Hyper: Hyper{LR: lr, Momentum: 0.9, WeightDecay: 5e-4}, Warmup: warmup}
}
