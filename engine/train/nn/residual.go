package nn

import "math"

// What residual networks are made of, with batch norm or without.
//
// Without it nothing keeps the size of what the layers compute, so the weights begin
// where signals keep theirs and a step changes each block little (Zhang, Dauphin and
// Ma, "Fixup initialization", 2019): convolutions uniform with the variance 2/fan in
// of He et al. 2015, those inside a block times the share L^(-1/(2m-2)) of L blocks of m
// convolutions, each block's last one zero, so that the network begins as its
// shortcuts; biases zero.

// heGain is the bound of a uniform distribution of variance 2/fan, times sqrt(fan).
var heGain = math.Sqrt(6)

// convNorm adds a convolution, batch norm and ReLU, or a convolution with bias and
// ReLU. share is of heGain.
func (b *builder) convNorm(conv, norm string, x, k int, w window, share float64) int {
	if b.spec.NoBatchNorm {
		y := b.conv(conv, x, k, w, biasReLU)
		b.startAt(heGain * share)
		return y
	}
	return b.norm(norm, b.conv(conv, x, k, w, bare), -1, true)
}

// lastConv adds a block's last convolution, whose batch norm is join's.
func (b *builder) lastConv(name string, x, k int, w window) int {
	if b.spec.NoBatchNorm {
		y := b.conv(name, x, k, w, bias)
		b.startAt(0)
		return y
	}
	return b.conv(name, x, k, w, bare)
}

// startAt sets the initial bound of the last convolution's weights, times
// sqrt(fan in), and its bias to zero.
func (b *builder) startAt(gain float64) {
	n := len(b.m.params)
	w, bias := &b.m.params[n-2], &b.m.params[n-1]
	w.gain, bias.fanIn = gain, 0
	if gain == 0 {
		w.fanIn = 0
	}
}

// join ends a residual block that began with node begin: y, what its last convolution
// made of x, normalised, plus x or its projection, then ReLU.
func (b *builder) join(name, norm string, begin, x, y, stride int) int {
	// The state_dict order has the norm before the shortcut's layers, while it, fused
	// with the residual and the ReLU, runs after them.
	at, k, res := len(b.m.params), b.m.shape(y).C, x
	project := stride != 1 || b.m.shape(x).C != k
	switch {
	case !project:
	case b.spec.NoBatchNorm:
		res = b.conv(name+"downsample.0", x, k, window{1, stride, 0, 1}, bias)
		b.startAt(heGain)
	default:
		res = b.conv(name+"downsample.0", x, k, window{1, stride, 0, 1}, bare)
		res = b.norm(name+"downsample.1", res, -1, false)
	}
	if b.spec.NoBatchNorm {
		y = b.sum(name+"add", y, res)
	} else {
		y = b.norm(name+norm, y, res, true)
		b.moveToFront(at)
	}
	b.m.nodes[y-1].begin = begin
	return y
}

// moveToFront puts the last two parameters, a batch norm's, at index at.
func (b *builder) moveToFront(at int) {
	p := b.m.params
	n := len(p) - 2
	if n == at {
		return
	}
	moved := append(append([]Param{}, p[n:]...), p[at:n]...)
	copy(p[at:], moved)
	shift := func(i *int) {
		switch {
		case *i >= n:
			*i += at - n
		case *i >= at:
			*i += 2
		}
	}
	for i := range b.m.nodes {
		shift(&b.m.nodes[i].weight)
		shift(&b.m.nodes[i].bias)
	}
}
