package pixels

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/kernels"
)

// TestBlurred: C and Go make, to the bit, what the reference makes.
func TestBlurred(t *testing.T) {
	defer func(was bool) { native = was }(native)
	rng := rand.New(rand.NewPCG(3, 2))
	ways := []bool{false}
	if native {
		ways = append(ways, true)
	}
	for range 60 {
		w, h, taps := 1+rng.IntN(70), 1+rng.IntN(50), 1+2*rng.IntN(kernels.MaxBlur/2+1)
		img, want := make([]byte, 3*w*h), make([]byte, 3*w*h)
		for i := range img {
			img[i] = byte(rng.Uint32())
		}
		weights, sum := make([]float32, taps/2+1), float32(0)
		for i := range weights {
			weights[i] = rng.Float32()
			sum += 2 * weights[i]
		}
		p := make([]int32, len(weights))
		for i, v := range weights {
			p[i] = int32(math.Float32bits(v / sum))
		}
		kernels.Blur{N: 1, H: h, W: w, Taps: taps, Record: kernels.Record{Words: len(p)}}.Image(0, img, p, want)
		for _, native = range ways {
			var z Blur
			got := make([]byte, len(img))
			z.Image(w, h, p, img, got)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d x %d, %d taps, in C %v: something else", w, h, taps, native)
			}
		}
	}
}
