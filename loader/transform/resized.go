package transform

import (
	"math"

	"dev.gpustall/loader"
)

// ResizedCrop makes Size x Size samples of RGB images of any size: torchvision's
// RandomResizedCrop, RandomHorizontalFlip and Normalize for training, and
// Resize(256), CenterCrop and Normalize for evaluation. Resizing is bilinear with
// antialiasing on uint8 pixels, as PIL does it (and bit by bit as PIL does it).
// Cutting and resizing stay on the host in either mode; the device flips and
// normalises.
type ResizedCrop struct {
	Norm
	Size  int
	Eval  bool
	Scale [2]float64 // of the crop's area to the image's
	Ratio [2]float64 // of the crop's width to its height
	Flip  float64

	free chan *resizer // scratch at rest; nil keeps none
}

// scratches is how many resizers are kept: more workers than that may run, and
// allocate.
const scratches = 64

// ImageNetTrain is the usual ImageNet recipe.
func ImageNetTrain(size int) *ResizedCrop {
	return &ResizedCrop{
		Norm: NewNorm(imageNetMean, imageNetStd), Size: size,
		Scale: [2]float64{0.08, 1}, Ratio: [2]float64{3. / 4, 4. / 3}, Flip: 0.5,
		free: make(chan *resizer, scratches),
	}
}

// ImageNetEval resizes the shorter side to size*256/224 and takes the middle.
func ImageNetEval(size int) *ResizedCrop {
	return &ResizedCrop{Norm: NewNorm(imageNetMean, imageNetStd), Size: size, Eval: true, free: make(chan *resizer, scratches)}
}

// draw chooses what is done to a w x h image.
func (t *ResizedCrop) draw(w, h int, rng *loader.RNG) job {
	if t.Eval {
		short := t.Size * 256 / 224
		rw, rh := short, short
		if w < h {
			rh = short * h / w
		} else {
			rw = short * w / h
		}
		// torchvision rounds half to even.
		x := int(math.RoundToEven(float64(rw-t.Size) / 2))
		y := int(math.RoundToEven(float64(rh-t.Size) / 2))
		return job{c: rect{0, 0, w, h}, w: rw, h: rh, window: rect{x, y, t.Size, t.Size}}
	}
	c := t.crop(w, h, rng)
	return job{c: c, w: t.Size, h: t.Size, window: rect{0, 0, t.Size, t.Size}, mirrored: rng.Float64() < t.Flip}
}

// Needs returns what of an image is cut out, or what the window is made of.
func (t *ResizedCrop) Needs(w, h int, rng loader.RNG) loader.Rect {
	j := t.draw(w, h, &rng)
	left, right := reach(j.c.w, j.w, j.window.x, j.window.w)
	top, bottom := reach(j.c.h, j.h, j.window.y, j.window.h)
	return loader.Rect{X: j.c.x + left, Y: j.c.y + top, W: right - left, H: bottom - top}
}

// crop is RandomResizedCrop.get_params: ten tries at a random area and shape,
// then the middle of the image at the nearest shape allowed.
func (t *ResizedCrop) crop(w, h int, rng *loader.RNG) rect {
	area := float64(w) * float64(h)
	lo, hi := math.Log(t.Ratio[0]), math.Log(t.Ratio[1])
	for range 10 {
		a := area * (t.Scale[0] + (t.Scale[1]-t.Scale[0])*rng.Float64())
		r := math.Exp(lo + (hi-lo)*rng.Float64())
		cw := int(math.RoundToEven(math.Sqrt(a * r)))
		ch := int(math.RoundToEven(math.Sqrt(a / r)))
		if cw > 0 && ch > 0 && cw <= w && ch <= h {
			y := rng.IntN(h - ch + 1)
			x := rng.IntN(w - cw + 1)
			return rect{x, y, cw, ch}
		}
	}
	cw, ch := w, h
	switch r := float64(w) / float64(h); {
	case r < t.Ratio[0]:
		ch = min(h, int(math.RoundToEven(float64(w)/t.Ratio[0])))
	case r > t.Ratio[1]:
		cw = min(w, int(math.RoundToEven(float64(h)*t.Ratio[1])))
	}
	return rect{(w - cw) / 2, (h - ch) / 2, max(cw, 1), max(ch, 1)}
}

// Host writes Size*Size*3 normalised values into dst.
func (t *ResizedCrop) Host(s *loader.Sample, rng *loader.RNG, dst []float32) {
	z := t.take()
	defer t.give(z)
	j := t.draw(s.W, s.H, rng)
	z.normalised(s, &j, &t.Norm, dst)
}

// Device writes the resized crop and leaves flip and normalisation to the device.
func (t *ResizedCrop) Device(s *loader.Sample, rng *loader.RNG, dst []byte, aug *[4]int32) {
	z := t.take()
	defer t.give(z)
	j := t.draw(s.W, s.H, rng)
	*aug = [4]int32{}
	if j.mirrored {
		aug[2] = 1
	}
	j.mirrored = false
	z.resize(s, &j, dst)
}

// take and give keep scratch from call to call. Whoever finds none
// makes one.
func (t *ResizedCrop) take() *resizer {
	select {
	case z := <-t.free:
		return z
	default:
		return &resizer{}
	}
}

func (t *ResizedCrop) give(z *resizer) {
	z.pix = nil // the sample's: its worker lets go of large ones
	select {
	case t.free <- z:
	default:
	}
}
