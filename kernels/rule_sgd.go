package kernels

// Stochastic gradient descent, as torch.optim.SGD has it without dampening: plain, with
// momentum (Polyak), and with Nesterov's look ahead.

var sgd = rule{
	name: "sgd", flops: 5,
	update: func(s *settings, w, g float64, _ []float64) float64 {
		return w - s.lr*(g+s.decay*w)
	},
}

var momentum = rule{
	name: "momentum", slots: []string{"momentum_buffer"}, flops: 7,
	update: func(s *settings, w, g float64, slots []float64) float64 {
		m := s.momentum*slots[0] + (g + s.decay*w)
		slots[0] = m
		return w - s.lr*m
	},
}

var nesterov = rule{
	name: "nesterov", slots: []string{"momentum_buffer"}, flops: 9,
	update: func(s *settings, w, g float64, slots []float64) float64 {
		g += s.decay * w
		m := s.momentum*slots[0] + g
		slots[0] = m
		return w - s.lr*(g+s.momentum*m)
	},
}
