package kernels

import "math"

// adagrad is torch.optim.Adagrad (Duchi, Hazan and Singer, 2011).
var adagrad = rule{
	name: "adagrad", slots: []string{"sum"}, counts: true, flops: 9,
	update: func(s *settings, w, g float64, slots []float64) float64 {
		g += s.decay * w
		slots[0] += g * g
		lr := s.lr / (1 + (s.step-1)*s.lrDecay)
		return w - lr*g/(math.Sqrt(slots[0])+s.eps)
	},
}

// adadelta is torch.optim.Adadelta (Zeiler, 2012).
var adadelta = rule{
	name: "adadelta", slots: []string{"square_avg", "acc_delta"}, flops: 17,
	update: func(s *settings, w, g float64, slots []float64) float64 {
		g += s.decay * w
		slots[0] += (g*g - slots[0]) * s.fresh
		delta := math.Sqrt(slots[1]+s.eps) / math.Sqrt(slots[0]+s.eps) * g
		slots[1] += (delta*delta - slots[1]) * s.fresh
		return w - s.lr*delta
	},
}

// adam is torch.optim.Adam (Kingma and Ba, 2014). It adds weight decay to the gradient.
var adam = rule{
	name: "adam", slots: adamSlots, counts: true, flops: 15,
	update: func(s *settings, w, g float64, slots []float64) float64 {
		return adamStep(s, w, g+s.decay*w, slots)
	},
}

// adamw is torch.optim.AdamW (Loshchilov and Hutter, 2017). It shrinks the weight itself by
// weight decay.
var adamw = rule{
	name: "adamw", slots: adamSlots, counts: true, flops: 15,
	update: func(s *settings, w, g float64, slots []float64) float64 {
		return adamStep(s, w-s.lr*s.decay*w, g, slots)
	},
}

var adamSlots = []string{"exp_avg", "exp_avg_sq"}

func adamStep(s *settings, w, g float64, slots []float64) float64 {
	slots[0] += (g - slots[0]) * (1 - s.momentum)
	slots[1] += (g*g - slots[1]) * s.fresh
	return w - s.lr/s.filled1*slots[0]/(math.Sqrt(slots[1]/s.filled2)+s.eps)
}
