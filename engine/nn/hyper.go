package nn

import "math"

// Hyper are the optimizer's settings, in PyTorch's words.
type Hyper struct {
	LR          float64
	Momentum    float64
	WeightDecay float64
}

// Schedule is a learning rate over steps: a linear warm-up to the constant
// Hyper.LR. Warm-up keeps the first large steps of a momentum run from
// diverging (Goyal et al., "Accurate, large minibatch SGD", 2017).
type Schedule struct {
	Hyper
	Warmup int // steps
}

// At returns the settings of step, counted from 0.
func (s Schedule) At(step int) Hyper {
	h := s.Hyper
	if step < s.Warmup {
		h.LR *= float64(step+1) / float64(s.Warmup)
	}
	return h
}

// DefaultSchedule returns settings that train m well at a batch size: the usual
// CIFAR recipe (momentum 0.9, weight decay 5e-4) with a learning rate for batch
// 128, scaled linearly to smaller batches. The cnn has no batch norm and takes a
// smaller rate.
func (m *Model) DefaultSchedule(batch int) Schedule {
	lr, warmup := 0.1, 100
	if m.Name == "cnn" {
		lr, warmup = 0.05, 50
	}
	lr *= math.Min(1, float64(batch)/128)
	return Schedule{Hyper: Hyper{LR: lr, Momentum: 0.9, WeightDecay: 5e-4}, Warmup: warmup}
}
