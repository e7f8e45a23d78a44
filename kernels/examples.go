package kernels

import (
	"math"
	"math/rand/v2"
)

// Examples fills the records of an image transform with random numbers that a loader may write,
// for tests of devices. It returns false for any other operation.
func Examples(op Op, r *rand.Rand, record []int32) bool {
	each := func(rec Record, n int, write func(n int, all, p []int32)) bool {
		for i := range n {
			write(i, record[i*rec.Words:(i+1)*rec.Words], rec.Of(record, i))
		}
		return true
	}
	float := func(v float64) int32 { return int32(math.Float32bits(float32(v))) }
	switch op := op.(type) {
	case Resample:
		return each(op.Record, op.N, func(n int, all, p []int32) {
			all[AugOffset] = int32(n * op.In / Packing)
			pixels := op.In / 3 // of which a part is held: all of it, one column of which is not used
			w := 1 + r.IntN(min(12, pixels/2))
			h := 1 + r.IntN(min(12, pixels/(w+1)))
			rw, rh := op.OutW+r.IntN(3), op.OutH+r.IntN(3)
			copy(p, []int32{4, 2, int32(w), int32(h), int32(rw), int32(rh), int32(r.IntN(rw - op.OutW + 1)), int32(r.IntN(rh - op.OutH + 1)),
				int32(op.OutW), int32(op.OutH), int32(n % 2), -1, 0, int32(w + 1), int32(h)})
		})
	case Shift:
		return each(op.Record, op.N, func(n int, _, p []int32) {
			copy(p, []int32{int32(r.IntN(9) - 4), int32(r.IntN(9) - 4), int32(n % 2), int32(n / 2 % 2)})
		})
	case Blur:
		return each(op.Record, op.N, func(_ int, _, p []int32) {
			sigma, sum := 0.5+4*r.Float64(), 0.0
			weight := func(i int) float64 { return math.Exp(-float64(i*i) / (2 * sigma * sigma)) }
			for i := -op.Taps / 2; i <= op.Taps/2; i++ {
				sum += weight(i)
			}
			for i := range op.Taps/2 + 1 {
				p[i] = float(weight(i) / sum)
			}
		})
	case Colours:
		programs := [][]int32{
			{ColourContrast, float(1.4), ColourBrightness, float(0.7), ColourHue, 30, ColourSaturation, float(1.9)},
			{ColourEqualize},
			{ColourAffine, 0, 1 << 16, 20000, 1000, -15000, 1 << 16, -70000},
			{ColourSaturation, float(0.2), ColourNone, 0, ColourContrast, float(0.3), ColourHue, 230},
			{ColourSharpness, float(1.8)},
			{ColourAutoContrast},
			{ColourPosterize, 3},
			{ColourSolarize, float(99.5)},
			{},
			{ColourSharpness, float(0.1)},
		}
		return each(op.Record, op.N, func(n int, _, p []int32) {
			clear(p[:ColourWords])
			copy(p, programs[n%len(programs)])
		})
	}
	return false
}

// ExampleTransforms returns image transforms of small and odd shapes, and of the largest.
func ExampleTransforms() []Op {
	r := Record{Words: 41, At: 5}
	return []Op{
		Resample{N: 3, OutH: 7, OutW: 5, In: 3 * 13 * 12, Record: r},
		Resample{N: 5, OutH: 4, OutW: 9, In: 480, Packed: true, Record: r},
		Resample{N: 4, OutH: 2, OutW: 2, In: 3 * 13 * 12, Record: r},
		Shift{N: 4, H: 6, W: 7, OutH: 8, OutW: 5, Record: r},
		Blur{N: 2, H: 19, W: 35, Taps: 7, Record: r},
		Blur{N: 1, H: 5, W: 9, Taps: MaxBlur, Record: r},
		Blur{N: 2, H: 1, W: 1, Taps: 3, Record: r},
		Colours{N: 10, H: 15, W: 18, Record: r},
	}
}
