package transform

import (
	"math"

	"dev.gpustall/loader"
)

// blur is GaussianBlur: a kernel of so many taps along rows, then along columns (pixels.Blur).
type blur struct {
	taps  int // odd
	sigma [2]float64
}

func (t *blur) radius() int               { return t.taps / 2 }
func (t *blur) shape(h, w int) (int, int) { return h, w }

// words returns the number of weights, from the middle outwards.
func (t *blur) words() int { return t.radius() + 1 }

func (t *blur) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	sigma := t.sigma[0] + (t.sigma[1]-t.sigma[0])*rng.Float64()
	sum := 0.0
	weight := func(i int) float64 { return math.Exp(-0.5 * (float64(i) / sigma) * (float64(i) / sigma)) }
	for i := range p {
		sum += weight(i)
		if i > 0 {
			sum += weight(i)
		}
	}
	for i := range p {
		p[i] = int32(math.Float32bits(float32(weight(i) / sum)))
	}
	return w, h
}

func (t *blur) apply(z *scratch, in *image, p []int32, dst []byte, w, h int) {
	z.blur.Image(w, h, p[:t.words()], in.pix, dst)
}
