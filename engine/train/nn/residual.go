package nn

import "math"

// Residual networks come with batch norm or without. Without it, only the initial weights
// keep the size of the layers' outputs. They are chosen so that signals keep their size and
// a step changes each residual block little (Zhang, Dauphin and Ma, "Fixup initialization",
// 2019).
//
// Convolutions are uniform with the variance 2/fan in of He et al. 2015. Those inside a
// residual block are scaled by L^(-1/(2m-2)), for L blocks of m convolutions. Each block's
// last one is zero, so that the network begins as its shortcuts. Biases are zero.

// heGain is the bound of a uniform distribution of variance 2/fan, times sqrt(fan).
var heGain = math.Sqrt(6)

// convNorm adds a convolution, batch norm and ReLU, or a convolution with bias and
// ReLU. share is the part of heGain that bounds the weights.
func (b *builder) convNorm(conv, norm string, x, k int, w window, share float64) int {
	if b.spec.NoBatchNorm {
		y := b.conv(conv, x, k, w, biasReLU)
		b.startAt(heGain * share)
		return y
	}
	return b.norm(norm, b.conv(conv, x, k, w, bare), -1, true)
}

// lastConv adds a residual block's last convolution. join adds its batch norm.
func (b *builder) lastConv(name string, x, k int, w window) int {
	if b.spec.NoBatchNorm {
		y := b.conv(name, x, k, w, bias)
		b.startAt(0)
		return y
	}
	return b.conv(name, x, k, w, bare)
}

// startAt sets the initial bound of the last convolution's weights to gain/sqrt(fan in),
// and its bias to zero.
func (b *builder) startAt(gain float64) {
	n := len(b.m.params)
	w, bias := &b.m.params[n-2], &b.m.params[n-1]
	w.gain, bias.fanIn = gain, 0
	if gain == 0 {
		w.fanIn = 0
	}
}

// join ends a residual block that began with node begin. y is the output of the block's
// last convolution for the input x. join normalises y, adds x or its projection, and
// applies ReLU.
func (b *builder) join(name, norm string, begin, x, y, stride int) int {
	// In the state_dict the norm comes before the shortcut's layers. It runs after them,
	// fused with the residual and the ReLU.
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

// moveToFront moves the last two parameters, a batch norm's, to index at.
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
