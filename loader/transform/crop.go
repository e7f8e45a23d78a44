package transform

import "dev.gpustall/loader"

// Crop is torchvision's RandomCrop(size, padding), RandomHorizontalFlip and Normalize for RGB
// images that already have the size. The image is padded with zero pixels, cut out at a random
// place, and mirrored or not. Then it is normalised, so that padding has the value of a black
// pixel.
type Crop struct {
	Norm
	Padding int     // pixels on each side; 0 keeps the image in place
	Flip    float64 // probability of mirroring left to right
}

// draw returns where the output's corner lies in the image, and whether to mirror.
func (t *Crop) draw(rng *loader.RNG) (dy, dx int, flip bool) {
	if t.Padding > 0 {
		dy = rng.IntN(2*t.Padding+1) - t.Padding
		dx = rng.IntN(2*t.Padding+1) - t.Padding
	}
	if t.Flip > 0 {
		flip = rng.Float64() < t.Flip
	}
	return dy, dx, flip
}

// Host writes s.H*s.W*3 normalised values into dst.
func (t *Crop) Host(s *loader.Sample, rng *loader.RNG, dst []float32) {
	dy, dx, flip := t.draw(rng)
	t.write(s.Pixels, s.W, s.H, dy, dx, flip, dst)
}

// write shifts, mirrors and normalises the pixels of a width x height image.
func (t *Crop) write(pix []byte, width, height, dy, dx int, flip bool, dst []float32) {
	// Columns [left,right) of the shifted image lie inside the stored one.
	left, right := min(max(0, -dx), width), max(min(width, width-dx), 0)
	if t.divides && right-left >= 8 {
		t.nativeWrite(pix, width, height, dy, dx, left, right, flip, dst)
		return
	}
	w := width * 3
	left, right = left*3, right*3
	for i := range height {
		out := dst[i*w : (i+1)*w]
		r := i + dy
		if r < 0 || r >= height || left >= right {
			t.padding(out)
			continue
		}
		in := pix[r*w+left+dx*3 : r*w+right+dx*3]
		if flip {
			t.padding(out[:w-right])
			t.mirrored(out[w-right:w-left], in)
			t.padding(out[w-left:])
		} else {
			t.padding(out[:left])
			t.row(out[left:right], in)
			t.padding(out[right:])
		}
	}
}

// planeWidth is the width of images that are taken as planes, which is CIFAR's: a row fits into
// a register.
const planeWidth = 32

// takesPlanes reports whether hostPlanes takes images of that size.
func (t *Crop) takesPlanes(w, h int) bool {
	return t.divides && w == planeWidth && h > 0 && t.Padding < planeWidth
}

// hostPlanes does what Host does for images of so many rows that have Planes. The results lie
// one behind the other.
func (t *Crop) hostPlanes(s []loader.Sample, rows int, dst []float32) {
	each := 3 * planeWidth * rows
	for len(s) > 0 {
		n := min(len(s), together)
		t.nativePlanes(s[:n], rows, dst[:n*each])
		s, dst = s[n:], dst[n*each:]
	}
}

// Device copies the pixels and leaves the rest to the device.
func (t *Crop) Device(s *loader.Sample, rng *loader.RNG, dst []byte, record []int32) int {
	dy, dx, flip := t.draw(rng)
	augmentation(record, dy, dx, flip)
	return copy(dst, s.Pixels)
}

// augmentation writes the parameters of the device's part, as kernels.Augment takes them.
func augmentation(record []int32, dy, dx int, flip bool) {
	record[0], record[1], record[2], record[3] = int32(dy), int32(dx), 0, 0
	if flip {
		record[2] = 1
	}
}
