package nn

import (
	"math"

	"dev.gpustall/engine/base/splitmix"
)

// Param is a named vector of the state: a trainable parameter or a running
// statistic.
type Param struct {
	Name  string // PyTorch's: "layer1.0.conv1.weight"
	Shape []int  // PyTorch's: K,C,R,S for a convolution, K,C,T,R,S over frames; on the device it lies as K,R,S,T,C

	fanIn int     // inputs of one output; 0: filled with fill
	gain  float64 // bound of the initial values, times sqrt(fanIn)
	fill  float32 // initial value when fanIn is 0
	stem  bool    // its input channels are the model's input channels, which 16-bit types pad
}

// Len counts its elements.
func (p Param) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// vector reports whether p is a bias or belongs to a norm, so that weight decay may leave
// it alone.
func (p Param) vector() bool { return len(p.Shape) == 1 }

// paramAlign is the alignment of each parameter, in elements: 128 bytes in
// 16-bit copies, 256 in float32.
const paramAlign = 64

// channelPad is the multiple to which 16-bit types round input channels up: one 16-byte load.
const channelPad = 8

// room returns the elements that p takes in a flat buffer, with its channels padded.
func (p Param) room() int {
	n := p.Len()
	if p.stem {
		n = p.Len() / p.Shape[1] * channelPad
	}
	return (n + paramAlign - 1) / paramAlign * paramAlign
}

// scatter writes v, in PyTorch's layout, into the device's layout with cpad
// channels; gather is its inverse. Only convolutions differ.
func (p Param) scatter(dst, v []float32, cpad int) { p.permute(v, dst, cpad, false) }

func (p Param) gather(v, src []float32, cpad int) { p.permute(v, src, cpad, true) }

func (p Param) permute(torch, dev []float32, cpad int, toTorch bool) {
	if len(p.Shape) < 4 {
		if toTorch {
			copy(torch, dev[:p.Len()])
		} else {
			copy(dev, torch)
		}
		return
	}
	n := len(p.Shape)
	c, frames, rs := p.Shape[1], 1, p.Shape[n-2]*p.Shape[n-1]
	if n == 5 {
		frames = p.Shape[2]
	}
	if !p.stem {
		cpad = c
	}
	for k := range p.Shape[0] {
		for ci := range c {
			for f := range frames {
				for i := range rs {
					t, d := ((k*c+ci)*frames+f)*rs+i, ((k*rs+i)*frames+f)*cpad+ci
					if toTorch {
						torch[t] = dev[d]
					} else {
						dev[d] = torch[t]
					}
				}
			}
		}
	}
}

// initialise fills v (PyTorch's layout) as PyTorch's modules do by default. Weights and
// biases of convolutions and linear layers are uniform in +-1/sqrt(fan in), which is
// kaiming_uniform with a = sqrt(5). Batch norm has 1 and 0. The fields gain and fill
// give other initial values (residual.go).
func (p Param) initialise(v []float32, r *splitmix.Source) {
	if p.fanIn == 0 {
		for i := range v {
			v[i] = p.fill
		}
		return
	}
	bound := p.gain / math.Sqrt(float64(p.fanIn))
	for i := range v {
		v[i] = float32((2*r.Float64() - 1) * bound)
	}
}
