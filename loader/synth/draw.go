package synth

import (
	"math"

	"dev.gpustall/loader"
)

// Classes is the number of classes of every image set made here.
const Classes = 10

// ClassNames are in the order of labels, which is also the order of their bytes, so that the
// folders of an image folder get the same labels. A class is a shape or a texture that looks
// the same mirrored. Place, size, tilt and contrast are random and independent of the class.
// The background's colour depends on the class a little, as in photographs, so a network
// quickly begins to learn.
var ClassNames = [Classes]string{
	"checkerboard", "cross", "diagonal-stripes", "disc", "dots",
	"horizontal-stripes", "ring", "square", "triangle", "vertical-stripes",
}

// picture is one image's random choices, in units of the image's shorter side
// (lengths) and of byte values (colours).
type picture struct {
	class      int
	cx, cy, r  float64    // centre and size of the object
	sin, cos   float64    // its tilt
	period     float64    // of textures
	phase      float64    // of textures
	back, fore [3]float64 // colours
	slope      [2]float64 // of the background's brightness, over the image
	noise      int        // amplitude
	blobs      [3]blob    // distractors: small spots of random colour
}

type blob struct {
	x, y, r2 float64
	add      float64
}

// tint is how far, in byte values, a class shifts the background towards its hue: about half
// the spread of backgrounds.
const tint = 25

func newPicture(class int, rng *loader.RNG) picture {
	between := func(a, b float64) float64 { return a + (b-a)*rng.Float64() }
	p := picture{class: class}
	p.r = between(0.24, 0.36)
	p.cx, p.cy = between(p.r, 1-p.r), between(p.r, 1-p.r)
	tilt := between(-0.2, 0.2)
	p.sin, p.cos = math.Sincos(tilt)
	p.period, p.phase = between(0.13, 0.19), between(0, 1)
	for c := range p.back {
		hue := math.Cos(2 * math.Pi * (float64(class)/Classes + float64(c)/3))
		p.back[c] = between(75, 180) + tint*hue
	}
	// The object is brighter or darker by enough to be seen, and tinted.
	contrast := between(70, 110)
	if rng.Float64() < 0.5 {
		contrast = -contrast
	}
	for c := range p.fore {
		p.fore[c] = p.back[c] + contrast + between(-30, 30)
	}
	p.slope = [2]float64{between(-25, 25), between(-25, 25)}
	p.noise = 5 + rng.IntN(10)
	for i := range p.blobs {
		r := between(0.02, 0.06)
		p.blobs[i] = blob{between(0, 1), between(0, 1), r * r, between(-50, 50)}
	}
	return p
}

// inside says whether the object covers a point, relative to its centre.
func (p *picture) inside(dx, dy float64) bool {
	x, y := (dx*p.cos+dy*p.sin)/p.r, (dy*p.cos-dx*p.sin)/p.r // in units of its size
	ax, ay := math.Abs(x), math.Abs(y)
	d2 := x*x + y*y
	if d2 > 2 {
		return false
	}
	// Textures fill a disc.
	u, v := dx/p.period+p.phase, dy/p.period+p.phase
	switch p.class {
	case 0: // checkerboard
		return d2 < 1 && half(u) != half(v)
	case 1: // cross
		return (ax < 0.3 && ay < 1) || (ay < 0.3 && ax < 1)
	case 2: // diagonal stripes, leaning either way
		if p.phase < 0.5 {
			v = -v
		}
		return d2 < 1 && half((u+v)*math.Sqrt2/2)
	case 3: // disc
		return d2 < 1
	case 4: // dots
		fu, fv := u-math.Floor(u)-0.5, v-math.Floor(v)-0.5
		return d2 < 1 && fu*fu+fv*fv < 0.1
	case 5: // horizontal stripes
		return d2 < 1 && half(v)
	case 6: // ring
		return d2 < 1 && d2 > 0.36
	case 7: // square
		return ax < 0.85 && ay < 0.85
	case 8: // triangle
		return y < 0.8 && y > -0.9 && ax < (y+0.9)*0.6
	default: // vertical stripes
		return d2 < 1 && half(u)
	}
}

// half reports whether u lies in the first half of its period.
func half(u float64) bool { return u-math.Floor(u) < 0.5 }

// draw paints the picture as w x h interleaved RGB.
func (p *picture) draw(dst []byte, w, h int, rng *loader.RNG) {
	side := float64(min(w, h))
	// On a wide image the object has more room.
	cx, cy := p.cx*float64(w)/side, p.cy*float64(h)/side
	for j := range h {
		y := (float64(j) + 0.5) / side
		for i := range w {
			x := (float64(i) + 0.5) / side
			colour := &p.back
			if p.inside(x-cx, y-cy) {
				colour = &p.fore
			}
			light := p.slope[0]*(x-0.5) + p.slope[1]*(y-0.5)
			for k := range p.blobs {
				b := &p.blobs[k]
				if dx, dy := x-b.x, y-b.y; dx*dx+dy*dy < b.r2 {
					light += b.add
				}
			}
			bits := rng.Uint64()
			px := dst[(j*w+i)*3:][:3]
			for c := range px {
				// The sum of two bytes is a triangular distribution around 255.
				n := int(bits&0xff) + int(bits>>8&0xff) - 255
				bits >>= 16
				px[c] = clampByte(int(colour[c]+light) + n*p.noise>>7)
			}
		}
	}
}

func clampByte(v int) byte { return byte(max(0, min(v, 255))) }
