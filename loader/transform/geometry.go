package transform

import (
	"fmt"
	"math"

	"dev.gpustall/kernels/pixels"
	"dev.gpustall/loader"
)

// normalise marks where pixels become floats. The pipeline makes them so.
type normalise struct {
	Constants
	given bool
}

func (*normalise) shape(h, w int) (int, int)                          { return h, w }
func (*normalise) words() int                                         { return 0 }
func (*normalise) draw(w, h int, _ *loader.RNG, _ []int32) (int, int) { return w, h }
func (*normalise) apply(*scratch, *image, []int32, []byte, int, int)  {}

// randomPart is the part of an image that RandomResizedCrop takes.
type randomPart struct {
	scale [2]float64 // of its area to the image's
	ratio [2]float64 // of its width to its height
}

// draw is RandomResizedCrop.get_params: ten tries at a random area and shape,
// then the middle of the image at the nearest shape allowed.
func (t *randomPart) draw(w, h int, rng *loader.RNG) pixels.Rect {
	area := float64(w) * float64(h)
	lo, hi := math.Log(t.ratio[0]), math.Log(t.ratio[1])
	for range 10 {
		a := area * (t.scale[0] + (t.scale[1]-t.scale[0])*rng.Float64())
		r := math.Exp(lo + (hi-lo)*rng.Float64())
		cw := int(math.RoundToEven(math.Sqrt(a * r)))
		ch := int(math.RoundToEven(math.Sqrt(a / r)))
		if cw > 0 && ch > 0 && cw <= w && ch <= h {
			y := rng.IntN(h - ch + 1)
			x := rng.IntN(w - cw + 1)
			return pixels.Rect{X: x, Y: y, W: cw, H: ch}
		}
	}
	cw, ch := w, h
	switch r := float64(w) / float64(h); {
	case r < t.ratio[0]:
		ch = min(h, int(math.RoundToEven(float64(w)/t.ratio[0])))
	case r > t.ratio[1]:
		cw = min(w, int(math.RoundToEven(float64(h)*t.ratio[1])))
	}
	return pixels.Rect{X: (w - cw) / 2, Y: (h - ch) / 2, W: max(cw, 1), H: max(ch, 1)}
}

// resample cuts a part out of an image, resizes it, and may cut a window out of the result and
// mirror it. It is RandomResizedCrop, or Resize with the CenterCrop or RandomCrop after it.
// Resizing is bilinear with antialiasing on uint8 pixels, bit by bit as PIL does it.
type resample struct {
	crop   *randomPart // nil: the whole image
	size   [2]int      // height and width, or ...
	short  bool        // ... the shorter side
	window *place      // of the result; nil: all of it
	flip   float64     // probability of mirroring left to right
}

// join makes the next step a part of this one, if that costs less than a separate step.
func (t *resample) join(s step) bool {
	switch s := s.(type) {
	case *place:
		if t.window != nil || t.flip > 0 || s.padding > 0 || s.size[0] > t.size[0] || s.size[1] > t.size[1] {
			return false
		}
		t.window = s
		return true
	case *flip:
		if t.flip > 0 || s.vertical {
			return false
		}
		t.flip = s.p
		return true
	}
	return false
}

func (t *resample) shape(h, w int) (int, int) {
	if t.window != nil {
		return t.window.size[0], t.window.size[1]
	}
	if t.short && (h == 0 || w == 0) {
		return 0, 0
	}
	rw, rh := t.resized(w, h)
	return rh, rw
}

// resized returns the size of a w x h part after resizing.
func (t *resample) resized(w, h int) (rw, rh int) {
	if !t.short {
		return t.size[1], t.size[0]
	}
	if w < h {
		return t.size[0], t.size[0] * h / w
	}
	return t.size[0] * w / h, t.size[0]
}

// A resample has these parameters, as kernels.Resample takes them. They are the part, its
// size after resizing, the window, whether it is mirrored, and which part of the image the
// device has.
const resampleWords = 15

// maxResized bounds the pixels of a resized image, 805 MB. An image of 100,000x1 would become
// huge when its shorter side is resized.
const maxResized = 16 * MaxSide * MaxSide

func (t *resample) words() int { return resampleWords }

func (t *resample) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	c := pixels.Rect{W: w, H: h}
	if t.crop != nil {
		c = t.crop.draw(w, h, rng)
	}
	rw, rh := t.resized(c.W, c.H)
	win := pixels.Rect{W: rw, H: rh}
	if t.window != nil {
		win.Y, win.X = t.window.corner(rw, rh, rng)
		win.H, win.W = t.window.size[0], t.window.size[1]
	}
	if win.W*win.H > maxResized {
		panic(fmt.Sprintf("an image of %dx%d pixels (width x height) would become one of %dx%d", w, h, win.W, win.H))
	}
	mirrored := 0
	if t.flip > 0 && rng.Float64() < t.flip {
		mirrored = 1
	}
	for i, v := range [resampleWords]int{c.X, c.Y, c.W, c.H, rw, rh, win.X, win.Y, win.W, win.H, mirrored, -c.X, -c.Y, w, h} {
		p[i] = int32(v)
	}
	return win.W, win.H
}

// sized returns the size of the window that draw decided on.
func (t *resample) sized(p []int32) (w, h int) { return int(p[8]), int(p[9]) }

// job returns what draw decided on.
func (t *resample) job(p []int32) pixels.Job {
	v := func(i int) int { return int(p[i]) }
	return pixels.Job{Part: pixels.Rect{X: v(0), Y: v(1), W: v(2), H: v(3)}, W: v(4), H: v(5),
		Window: pixels.Rect{X: v(6), Y: v(7), W: v(8), H: v(9)}, Mirrored: v(10) != 0}
}

// resize writes the current job's result for an image.
func (z *scratch) resize(m *image, dst []byte) { z.Image(pixels.Rect(m.held), m.pix, &z.work, dst) }

// stripBytes are normalised at a time; so many fit into the first-level cache.
const stripBytes = 12 << 10

// normalised does what resize does and normalises the result.
func (z *scratch) normalised(m *image, norm *Norm, dst []float32) {
	z.Begin(pixels.Rect(m.held), m.pix, &z.work)
	n := z.work.Window.W * 3
	_ = dst[n*z.work.Window.H-1]
	most := max(1, stripBytes/n)
	for y := 0; y < z.work.Window.H; y += most {
		rows := min(most, z.work.Window.H-y)
		z.strip = grow(z.strip, rows*n)
		z.Rows(y, rows, z.strip)
		norm.row(dst[y*n:(y+rows)*n], z.strip)
	}
}

// grow returns s with n elements, of any content.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func (t *resample) apply(z *scratch, in *image, p []int32, dst []byte, _, _ int) {
	z.work = t.job(p)
	z.resize(in, dst)
}

// needs returns the part of an image that is cut out, or that the window is made of.
func (t *resample) needs(_, _ int, p []int32) loader.Rect {
	j := t.job(p)
	left, right := pixels.Reach(j.Part.W, j.W, j.Window.X, j.Window.W)
	top, bottom := pixels.Reach(j.Part.H, j.H, j.Window.Y, j.Window.H)
	return loader.Rect{X: j.Part.X + left, Y: j.Part.Y + top, W: right - left, H: bottom - top}
}

// place and flip have these parameters, as kernels.Shift takes them: the corner, and whether
// the image is mirrored left to right, and top to bottom.
const shiftWords = 4

// place cuts a part of a given size out of an image with zero pixels around it: RandomCrop, or
// CenterCrop. If the image is too small, zeros fill the rest.
type place struct {
	size    [2]int // height and width
	padding int
	random  bool
}

// refuse says why the step is impossible for images of a size; it is empty if it is possible.
func (t *place) refuse(h, w int) string {
	if t.random && h > 0 && (h+2*t.padding < t.size[0] || w+2*t.padding < t.size[1]) {
		return fmt.Sprintf("a part of %dx%d is larger than the image of %dx%d with padding=%d", t.size[0], t.size[1], h, w, t.padding)
	}
	return ""
}

func (t *place) shape(int, int) (int, int) { return t.size[0], t.size[1] }
func (t *place) words() int                { return shiftWords }

// corner returns where the part's corner lies in a w x h image.
func (t *place) corner(w, h int, rng *loader.RNG) (y, x int) {
	if !t.random { // torchvision rounds half to even
		return int(math.RoundToEven(float64(h-t.size[0]) / 2)), int(math.RoundToEven(float64(w-t.size[1]) / 2))
	}
	along := func(n, size int) int {
		lo, hi := -t.padding, n+t.padding-size
		if hi < lo {
			lo, hi = hi, lo
		}
		if hi == lo {
			return lo
		}
		return lo + rng.IntN(hi-lo+1)
	}
	y = along(h, t.size[0])
	return y, along(w, t.size[1])
}

func (t *place) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	y, x := t.corner(w, h, rng)
	p[0], p[1], p[2], p[3] = int32(y), int32(x), 0, 0
	return t.size[1], t.size[0]
}

func (t *place) apply(_ *scratch, in *image, p []int32, dst []byte, w, h int) {
	dy, dx := int(p[0]), int(p[1])
	left, right := min(max(0, -dx), w), max(min(w, in.w-dx), 0)
	for y := range h {
		out := dst[y*w*3 : (y+1)*w*3]
		if r := y + dy; r < 0 || r >= in.h || left >= right {
			clear(out)
		} else {
			clear(out[:left*3])
			copy(out[left*3:right*3], in.row(left+dx, r, right-left))
			clear(out[right*3:])
		}
	}
}

// needs returns the part of the image that is kept.
func (t *place) needs(w, h int, p []int32) loader.Rect {
	along := func(at, size, n int) (from, to int) {
		from, to = max(at, 0), min(at+size, n)
		if from >= to { // nothing is kept, but a decoder must make something
			return 0, 1
		}
		return from, to
	}
	top, bottom := along(int(p[0]), t.size[0], h)
	left, right := along(int(p[1]), t.size[1], w)
	return loader.Rect{X: left, Y: top, W: right - left, H: bottom - top}
}

// flip mirrors an image with a probability.
type flip struct {
	p        float64
	vertical bool
}

func (t *flip) shape(h, w int) (int, int) { return h, w }
func (t *flip) words() int                { return shiftWords }

// turned returns the parameter that says whether the image is mirrored.
func (t *flip) turned() int {
	if t.vertical {
		return 3
	}
	return 2
}

func (t *flip) draw(w, h int, rng *loader.RNG, p []int32) (ow, oh int) {
	clear(p)
	if rng.Float64() < t.p {
		p[t.turned()] = 1
	}
	return w, h
}

func (t *flip) apply(_ *scratch, in *image, p []int32, dst []byte, w, h int) {
	for y := range h {
		from := y
		if p[3] != 0 {
			from = h - 1 - y
		}
		out := dst[y*w*3 : (y+1)*w*3]
		if copy(out, in.row(0, from, w)); p[2] != 0 {
			pixels.Mirror(out)
		}
	}
}
