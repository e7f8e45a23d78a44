package codec

import (
	"image"
	"math"
	"testing"

	"dev.gpustall/loader"
)

// TestYCbCr compares every subsampling and size, exactly, with the definition of
// libjpeg's filter: for each halved direction 3/4 of the nearer chroma sample and 1/4
// of the farther one. Odd and even outputs round differently. Colours are JFIF's
// equations, rounded to nearest.
func TestYCbCr(t *testing.T) {
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		for _, size := range [][2]int{{257, 9}, {256, 8}, {1, 1}, {2, 2}, {3, 1}, {4, 3}, {5, 2}, {6, 5}} {
			// The planes are wider and higher than shown, as image/jpeg makes them. The rest
			// must not be seen.
			whole := image.NewYCbCr(image.Rect(0, 0, 272, 16), ratio)
			rng := loader.NewRNG(1, size[0], int(ratio))
			for _, p := range [][]byte{whole.Y, whole.Cb, whole.Cr} {
				for i := range p {
					p[i] = byte(rng.Uint64())
					if rng.IntN(8) == 0 {
						p[i] = byte(255 * rng.IntN(2)) // the extremes clamp
					}
				}
			}
			m := whole.SubImage(image.Rect(0, 0, size[0], size[1])).(*image.YCbCr)
			checkYCbCr(t, m)
		}
	}
}

func checkYCbCr(t *testing.T, m *image.YCbCr) {
	t.Helper()
	w, h := m.Rect.Dx(), m.Rect.Dy()
	got := make([]byte, w*h*3)
	fromYCbCr(got, m, image.Rect(0, 0, w, h), nil)
	for y := range h {
		for x := range w {
			p := [3]byte(got[(y*w+x)*3:])
			luma, cb, cr := float64(m.Y[m.YOffset(x, y)]), float64(chroma(m, m.Cb, x, y))-128, float64(chroma(m, m.Cr, x, y))-128
			for i, want := range []float64{luma + 1.402*cr, luma - 0.344136*cb - 0.714136*cr, luma + 1.772*cb} {
				if d := math.Abs(float64(p[i]) - max(0, min(want, 255))); d > 0.502 { // the constants have 16 bits
					t.Fatalf("%v %dx%d: pixel (%d,%d) is %v: channel %d is not the nearest to %v", m.SubsampleRatio, w, h, x, y, p, i, want)
				}
			}
		}
	}
}

// chroma is the filter for one pixel of one plane.
func chroma(m *image.YCbCr, plane []byte, x, y int) int {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	at := func(x, y int) int { return int(plane[y*m.CStride+x]) }
	// These are the near and far samples of a halved direction. Past the edge, the edge
	// is repeated.
	pick := func(i, n int) (near, far int) {
		near = i / 2
		return near, max(0, min(near-1+i%2*2, (n+1)/2-1))
	}
	x0, x1 := pick(x, w)
	y0, y1 := pick(y, h)
	narrow := (w+1)/2 <= 2
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		if narrow {
			return at(x/2, y/2)
		}
		return (9*at(x0, y0) + 3*at(x1, y0) + 3*at(x0, y1) + at(x1, y1) + 8 - x%2) / 16
	case image.YCbCrSubsampleRatio422:
		if narrow {
			return at(x/2, y)
		}
		return (3*at(x0, y) + at(x1, y) + 1 + x%2) / 4
	case image.YCbCrSubsampleRatio440:
		return (3*at(x, y0) + at(x, y1) + 1 + y%2) / 4
	case image.YCbCrSubsampleRatio411:
		return at(x/4, y)
	case image.YCbCrSubsampleRatio410:
		return at(x/4, y/2)
	}
	return at(x, y)
}

func BenchmarkConvert420(b *testing.B) {
	m := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
	rng := loader.NewRNG(1, 2, 3)
	for _, p := range [][]byte{m.Y, m.Cb, m.Cr} {
		for i := range p {
			p[i] = byte(100 + i/64%64 + rng.IntN(8))
		}
	}
	dst := make([]byte, 500*375*3)
	b.ReportAllocs()
	b.SetBytes(int64(len(dst)))
	for b.Loop() {
		fromYCbCr(dst, m, m.Rect, nil)
	}
}
