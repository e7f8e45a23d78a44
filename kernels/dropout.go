package kernels

import "math"

// Dropout keeps each of N elements with probability 1-Rate, divides it by that, and clears the
// others. A hash of the layer, the element and the noise decides which are kept, so no mask is
// stored. Applied to dy with the same noise it is its own gradient.
// Buffers: x, noise (int32[NoiseLen]), y. y may be x's buffer.
type Dropout struct {
	N     int
	Rate  float32 // 0 to less than 1
	Layer int     // which Dropout of the network this is: each draws differently
	Type  Type
}

// The noise of a step, in device memory. Indices into its buffer:
const (
	NoiseSeed = iota // 64 bits of it, the low ones first
	NoiseSeedHigh
	NoiseStep // batches so far
	NoiseLen  = 4
)

func (op Dropout) Name() string   { return "dropout" }
func (op Dropout) FLOPs() float64 { return float64(op.N) }
func (op Dropout) Bytes() float64 { return traffic(op.Args()) }

func (op Dropout) Args() []Arg {
	return []Arg{{"x", In, op.Type, op.N}, {"noise", In, I32, NoiseLen}, {"y", Out, op.Type, op.N}}
}

func (op Dropout) Reference(bufs [][]byte) {
	y := Load(bufs[2], op.Type)
	op.Ref(Load(bufs[0], op.Type), Ints(bufs[1]), y)
	Store(bufs[2], op.Type, y)
}

// Least returns the least hash, of 24 bits, with which an element is kept.
func (op Dropout) Least() uint32 { return uint32(math.Round(float64(op.Rate) * (1 << 24))) }

// Scale returns what a kept element is multiplied by.
func (op Dropout) Scale() float32 { return 1 / (1 - op.Rate) }

// Key returns the part of the hash that all elements of one launch share.
func (op Dropout) Key(noise []int32) uint32 {
	key := scramble(uint32(noise[NoiseStep]) + 0x9e3779b9*uint32(op.Layer+1))
	return scramble(scramble(key^uint32(noise[NoiseSeedHigh])) ^ uint32(noise[NoiseSeed]))
}

// Ref computes y = x/(1-rate) where the hash's upper 24 bits are at least rate of 2^24,
// else 0.
func (op Dropout) Ref(x []float32, noise []int32, y []float32) {
	key, least, scale := op.Key(noise), op.Least(), op.Scale()
	for i := range op.N {
		if scramble(scramble(uint32(i)^key)+key)>>8 >= least {
			y[i] = x[i] * scale
		} else {
			y[i] = 0
		}
	}
}

// scramble is Wellons's lowbias32, a hash of 32 bits in which each bit of the input
// changes each of the output about half of the time (nullprogram.com/blog/2018/07/31).
func scramble(x uint32) uint32 {
	x = (x ^ x>>16) * 0x7feb352d
	x = (x ^ x>>15) * 0x846ca68b
	return x ^ x>>16
}

// NextNoise counts a batch, so that the next batch drops other elements. Buffers: noise.
type NextNoise struct{}

func (op NextNoise) Name() string   { return "next_noise" }
func (op NextNoise) FLOPs() float64 { return 0 }
func (op NextNoise) Bytes() float64 { return traffic(op.Args()) }

func (op NextNoise) Args() []Arg { return []Arg{{"noise", InOut, I32, NoiseLen}} }

func (op NextNoise) Reference(bufs [][]byte) { Ints(bufs[0])[NoiseStep]++ }
