package kernels

import "math"

// The numbers of Colours: four operations with one number each, or one affine map followed by
// its six coefficients.
const (
	ColourNone       = iota
	ColourBrightness // a float32 factor
	ColourContrast   // a float32 factor
	ColourSaturation // a float32 factor
	ColourHue        // a shift of 0 to 255
	ColourPosterize  // how many bits stay
	ColourSolarize   // a float32 threshold, from which on values are inverted
	ColourAutoContrast
	ColourEqualize
	ColourSharpness // a float32 factor; no other operation beside it
	ColourAffine    // no other operation beside it
	ColourWords     = 8
)

// Colours changes the colours of each image, or its geometry by an affine map. These are the
// operations of ColorJitter and TrivialAugment, as Pillow computes them.
type Colours struct {
	N, H, W int
	Record
}

func (op Colours) Name() string            { return "colours" }
func (op Colours) FLOPs() float64          { return 4 * 10 * 3 * float64(op.N*op.H*op.W) }
func (op Colours) Bytes() float64          { return traffic(op.Args()) }
func (op Colours) Args() []Arg             { return imageArgs(op.N, op.H*op.W*3, op.Words, op.H*op.W*3) }
func (op Colours) Reference(bufs [][]byte) { each(op.N, bufs, op.Image) }

func floats(v []int32) []float32 {
	out := make([]float32, len(v))
	for i, b := range v {
		out[i] = math.Float32frombits(uint32(b))
	}
	return out
}

// Image makes image n.
func (op Colours) Image(n int, x []byte, record []int32, y []byte) {
	size := op.H * op.W * 3
	x, y = x[n*size:(n+1)*size], y[n*size:(n+1)*size]
	p := op.Of(record, n)[:ColourWords]
	switch p[0] {
	case ColourAffine:
		op.affine(p[2:], x, y)
		return
	case ColourSharpness:
		op.sharpen(floats(p)[1], x, y)
		return
	}
	copy(y, x)
	for i := 0; i < ColourWords; i += 2 {
		f := floats(p)[i+1]
		switch p[i] {
		case ColourNone:
		case ColourSaturation:
			for at := 0; at < size; at += 3 {
				l := Luma(y[at:])
				for c := range 3 {
					y[at+c] = Blend(l, int32(y[at+c]), f)
				}
			}
		case ColourHue:
			for at := 0; at < size; at += 3 {
				TurnHue(y[at:], p[i+1])
			}
		default:
			table := ColourTable(p[i], p[i+1], y)
			for at := range y {
				y[at] = table[at%3][y[at]]
			}
		}
	}
}

// Luma returns the grey value that Pillow gives a pixel.
func Luma(px []byte) int32 {
	return (int32(px[0])*19595 + int32(px[1])*38470 + int32(px[2])*7471 + 1<<15) >> 16
}

// Blend returns the value at a share of the way from one value to another; the share may be
// over 1.
func Blend(from, to int32, f float32) byte {
	return byte(min(max(float32(from)+float32(f*float32(to-from)), 0), 255))
}

// ColourTable returns, by channel, what an operation makes of each of the 256 values. It is for
// operations that look at one value at a time.
func ColourTable(what, by int32, px []byte) (table [3][256]byte) {
	f := math.Float32frombits(uint32(by))
	var count [3][256]int32
	grey := int64(0)
	for at, v := range px {
		count[at%3][v]++
		if at%3 == 0 {
			grey += int64(Luma(px[at:]))
		}
	}
	pixels := int64(len(px) / 3)
	mean := int32((2*grey + pixels) / (2 * pixels))
	for c := range table {
		lo, hi := int32(255), int32(0)
		last := int32(0)
		for v, n := range count[c] {
			if n > 0 {
				lo, hi, last = min(lo, int32(v)), int32(v), n
			}
		}
		each := (int32(pixels) - last) / 255
		sum := each / 2
		for i := range table[c] {
			v := int32(i)
			out := byte(v)
			switch what {
			case ColourBrightness:
				out = Blend(0, v, f)
			case ColourContrast:
				out = Blend(mean, v, f)
			case ColourPosterize:
				out = byte(v &^ (1<<(8-by) - 1))
			case ColourSolarize:
				if float32(v) >= f {
					out = byte(255 - v)
				}
			case ColourAutoContrast:
				if hi > lo {
					out = byte(min(max(v-lo, 0)*255/(hi-lo), 255))
				}
			case ColourEqualize:
				if each > 0 {
					out = byte(min(sum/each, 255))
				}
				sum += count[c][v]
			}
			table[c][i] = out
		}
	}
	return table
}

// TurnHue shifts a pixel's hue by way of Pillow's HSV. It computes in integers what Pillow
// computes in floats, so results differ from Pillow's by rounding alone.
func TurnHue(px []byte, by int32) {
	r, g, b := int32(px[0]), int32(px[1]), int32(px[2])
	most, least := max(r, g, b), min(r, g, b)
	if most == least {
		return
	}
	d := most - least
	var at int32 // the hue in units of d/6
	switch most {
	case r:
		at = g - b
	case g:
		at = 2*d + b - r
	default:
		at = 4*d + r - g
	}
	if at < 0 {
		at += 6 * d
	}
	h := (255*at/(6*d) + by) & 255
	s := 255 * d / most
	sixth, f := 6*h/255, 6*h%255
	p := byte((2*most*(255-s) + 255) / 510)
	q := byte((2*most*(65025-s*f) + 65025) / 130050)
	t := byte((2*most*(65025-s*(255-f)) + 65025) / 130050)
	v := byte(most)
	switch sixth % 6 {
	case 0:
		px[0], px[1], px[2] = v, t, p
	case 1:
		px[0], px[1], px[2] = q, v, p
	case 2:
		px[0], px[1], px[2] = p, v, t
	case 3:
		px[0], px[1], px[2] = p, q, v
	case 4:
		px[0], px[1], px[2] = t, p, v
	default:
		px[0], px[1], px[2] = v, p, q
	}
}

func (op Colours) sharpen(f float32, x, y []byte) {
	n := op.W * 3
	for i := range op.H {
		for at := i * n; at < (i+1)*n; at++ {
			y[at] = x[at]
			if i == 0 || i == op.H-1 || at < i*n+3 || at >= (i+1)*n-3 {
				continue
			}
			sum := 4 * int32(x[at])
			for _, row := range [3]int{-n, 0, n} {
				sum += int32(x[at+row-3]) + int32(x[at+row]) + int32(x[at+row+3])
			}
			y[at] = Blend((2*sum+13)/26, int32(x[at]), f)
		}
	}
}

func (op Colours) affine(a []int32, x, y []byte) {
	for i := range int32(op.H) {
		for j := range int32(op.W) {
			c, r := int(a[2]+i*a[1]+j*a[0])>>16, int(a[5]+i*a[4]+j*a[3])>>16
			for ch := range 3 {
				v := byte(0)
				if c >= 0 && c < op.W && r >= 0 && r < op.H {
					v = x[(r*op.W+c)*3+ch]
				}
				y[(int(i)*op.W+int(j))*3+ch] = v
			}
		}
	}
}
