package transform

import (
	"math"

	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// TrivialAugmentWide (S. Müller, F. Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art
// Data Augmentation", 2021) applies one of fourteen operations. All are equally likely, and so
// are the magnitudes of each and, if it has one, its sign.
var trivialOps = [14]struct {
	least, most float64
	signed      bool
	write       func(m float64, bin, bins, w, h int, p []int32)
}{
	{0, 0, false, func(float64, int, int, int, int, []int32) {}},
	{0, 0.99, true, func(m float64, _, _, _, _ int, p []int32) { fixAffine(p, 1, m, 0, 0, 1, 0) }},
	{0, 0.99, true, func(m float64, _, _, _, _ int, p []int32) { fixAffine(p, 1, 0, 0, m, 1, 0) }},
	{0, 32, true, func(m float64, _, _, _, _ int, p []int32) { fixAffine(p, 1, 0, -math.Trunc(m), 0, 1, 0) }},
	{0, 32, true, func(m float64, _, _, _, _ int, p []int32) { fixAffine(p, 1, 0, 0, 0, 1, -math.Trunc(m)) }},
	{0, 135, true, rotate},
	{0, 0.99, true, factorOf(kernels.ColourBrightness)},
	{0, 0.99, true, factorOf(kernels.ColourSaturation)},
	{0, 0.99, true, factorOf(kernels.ColourContrast)},
	{0, 0.99, true, factorOf(kernels.ColourSharpness)},
	{0, 0, false, func(_ float64, bin, bins, _, _ int, p []int32) {
		p[0], p[1] = kernels.ColourPosterize, 8-int32(math.RoundToEven(float64(float32(bin)/(float32(bins-1)/6))))
	}},
	{255, 0, false, func(m float64, _, _, _, _ int, p []int32) { p[0], p[1] = kernels.ColourSolarize, bits(m) }},
	{0, 0, false, func(_ float64, _, _, _, _ int, p []int32) { p[0] = kernels.ColourAutoContrast }},
	{0, 0, false, func(_ float64, _, _, _, _ int, p []int32) { p[0] = kernels.ColourEqualize }},
}

func factorOf(what int32) func(m float64, bin, bins, w, h int, p []int32) {
	return func(m float64, _, _, _, _ int, p []int32) { p[0], p[1] = what, bits(1+m) }
}

func trivial(bins int) *colours {
	return &colours{func(w, h int, rng *loader.RNG, p []int32) {
		what := rng.IntN(len(trivialOps))
		bin := rng.IntN(bins)
		writeTrivial(what, bin, bins, trivialOps[what].signed && rng.IntN(2) == 1, w, h, p)
	}}
}

// writeTrivial writes an operation with the magnitude of a bin.
func writeTrivial(what, bin, bins int, negative bool, w, h int, p []int32) {
	op := &trivialOps[what]
	m := linspace(float32(op.least), float32(op.most), bin, bins)
	if negative {
		m = -m
	}
	op.write(m, bin, bins, w, h, p)
}

// linspace returns number i of torch.linspace, which counts from the nearer end by float32
// steps. So a translation of 16 pixels becomes one of 15.
func linspace(from, to float32, i, n int) float64 {
	each := (to - from) / float32(n-1)
	if i < n/2 {
		return float64(float32(float64(from) + float64(each)*float64(i)))
	}
	return float64(float32(float64(to) - float64(each)*float64(n-1-i)))
}

// rotate turns about the middle, counter-clockwise, by degrees, as Image.rotate does.
func rotate(degrees float64, _, _, w, h int, p []int32) {
	at := -math.Mod(degrees+360, 360) * math.Pi / 180
	round := func(v float64) float64 { return math.RoundToEven(v*1e15) / 1e15 }
	cos, sin := round(math.Cos(at)), round(math.Sin(at))
	x, y := float64(w)/2, float64(h)/2
	fixAffine(p, cos, sin, x-cos*x-sin*y, -sin, cos, y+sin*x-cos*y)
}

// fixAffine writes the map from an output's place to the input's: x = ax+by+c, y =
// dx+ey+f, in 65536ths, at the middle of pixel 0,0.
func fixAffine(p []int32, a, b, c, d, e, f float64) {
	fix := func(v float64) int32 { return int32(math.Floor(v*65536 + 0.5)) }
	p[0] = kernels.ColourAffine
	for i, v := range [6]float64{a, b, c + a/2 + b/2, d, e, f + d/2 + e/2} {
		p[2+i] = fix(v)
	}
}
