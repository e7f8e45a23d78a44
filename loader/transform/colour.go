package transform

import (
	"math"

	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// colours is a step that changes colours pixel by pixel or by an affine map, without a
// change of size.
type colours struct {
	decide func(w, h int, rng *loader.RNG, p []int32)
}

func (t *colours) shape(h, w int) (int, int) { return h, w }
func (t *colours) words() int                { return kernels.ColourWords }

func (t *colours) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	clear(p)
	t.decide(w, h, rng, p)
	return w, h
}

func bits(f float64) int32 { return int32(math.Float32bits(float32(f))) }

// jitter is ColorJitter: those of the four changes that are set, in random order.
func jitter(of [4]*[2]float64) *colours {
	return &colours{func(_, _ int, rng *loader.RNG, p []int32) {
		order := [4]int{0, 1, 2, 3}
		for i := 3; i > 0; i-- {
			j := rng.IntN(i + 1)
			order[i], order[j] = order[j], order[i]
		}
		var by [4]float64
		for i, b := range of {
			if b != nil {
				by[i] = b[0] + (b[1]-b[0])*rng.Float64()
			}
		}
		for at, i := range order {
			if of[i] == nil {
				continue
			}
			p[2*at], p[2*at+1] = int32(kernels.ColourBrightness+i), bits(by[i])
			if i == 3 {
				p[2*at+1] = int32(uint8(int32(by[i] * 255)))
			}
		}
	}}
}

func (t *colours) apply(z *scratch, in *image, p []int32, dst []byte, w, h int) {
	z.colours.Image(w, h, p, in.pix, dst)
}
