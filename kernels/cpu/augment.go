package cpu

import (
	"sync"

	"dev.gpustall/kernels"
	"dev.gpustall/kernels/pixels"
)

// transforms binds a plan's transforms of images.
type transforms struct{ *Plan }

// augment shifts, flips and normalises. It looks a pixel's value up in a table of 256 for each
// channel.
func (pl transforms) augment(op kernels.Augment, pixels []byte, aug []int32, y []float32) func() {
	table := make([][256]float32, op.C)
	for c := range table {
		for v := range 256 {
			table[c][v] = float32((float64(v)/255 - float64(op.Mean[c])) / float64(op.Std[c]))
		}
	}
	return pl.parallel(op.N, op.N, func(lo, hi int) {
		for n := lo; n < hi; n++ {
			augmentImage(&op, table, pixels[n*op.H*op.W*op.C:], aug[n*op.Record():], y[n*op.H*op.W*op.CPad:])
		}
	})
}

func augmentImage(op *kernels.Augment, table [][256]float32, pixels []byte, aug []int32, y []float32) {
	dy, dx, flip := int(aug[kernels.AugDY]), int(aug[kernels.AugDX]), aug[kernels.AugFlip] != 0
	for i := range op.H {
		for j := range op.W {
			h, w := i+dy, j+dx
			if flip {
				w = op.W - 1 - j + dx
			}
			out := y[(i*op.W+j)*op.CPad:][:op.CPad]
			if h < 0 || h >= op.H || w < 0 || w >= op.W {
				for c := range table {
					out[c] = table[c][0]
				}
			} else {
				in := pixels[(h*op.W+w)*op.C:][:op.C]
				for c := range table {
					out[c] = table[c][in[c]]
				}
			}
			clear(out[op.C:])
		}
	}
}

func (pl *Plan) padChannels(op kernels.PadChannels, x, y []float32) func() {
	return pl.parallel(ceil(op.Rows*op.CPad, spanFloats), op.Rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := y[i*op.CPad : (i+1)*op.CPad]
			clear(row[copy(row, x[i*op.C:(i+1)*op.C]):])
		}
	})
}

// images returns a step that calls image for each of n images, on all threads. z is scratch
// memory that one thread uses at a time.
func images[T any](pl *Plan, n int, image func(z *T, n int)) func() {
	scratch := sync.Pool{New: func() any { return new(T) }}
	return pl.parallel(n, n, func(lo, hi int) {
		z := scratch.Get().(*T)
		defer scratch.Put(z)
		for i := lo; i < hi; i++ {
			image(z, i)
		}
	})
}

func (pl transforms) resample(op kernels.Resample, x []byte, record []int32, y []byte) func() {
	out := 3 * op.OutH * op.OutW
	return images(pl.Plan, op.N, func(z *pixels.Resizer, n int) {
		p, from := op.Of(record, n), n*op.In
		if op.Packed {
			from = int(record[n*op.Words+kernels.AugOffset]) * kernels.Packing
		}
		at := func(i int) int { return int(p[i]) }
		held := pixels.Rect{X: at(kernels.HeldX), Y: at(kernels.HeldY), W: at(kernels.HeldW), H: at(kernels.HeldH)}
		z.Image(held, x[from:from+3*held.W*held.H], &pixels.Job{
			Part: pixels.Rect{W: at(kernels.PartW), H: at(kernels.PartH)}, W: at(kernels.ResizedW), H: at(kernels.ResizedH),
			Window:   pixels.Rect{X: at(kernels.WindowX), Y: at(kernels.WindowY), W: op.OutW, H: op.OutH},
			Mirrored: p[kernels.Mirrored] != 0,
		}, y[n*out:(n+1)*out])
		z.Release()
	})
}

func (pl transforms) shift(op kernels.Shift, x []byte, record []int32, y []byte) func() {
	return images(pl.Plan, op.N, func(_ *struct{}, n int) {
		pixels.Shift(op.W, op.H, op.OutW, op.OutH, op.Of(record, n), x[3*n*op.H*op.W:], y[3*n*op.OutH*op.OutW:])
	})
}

func (pl transforms) blur(op kernels.Blur, x []byte, record []int32, y []byte) func() {
	size := 3 * op.H * op.W
	return images(pl.Plan, op.N, func(z *pixels.Blur, n int) {
		z.Image(op.W, op.H, op.Of(record, n)[:op.Taps/2+1], x[n*size:], y[n*size:])
	})
}

func (pl transforms) colours(op kernels.Colours, x []byte, record []int32, y []byte) func() {
	size := 3 * op.H * op.W
	return images(pl.Plan, op.N, func(z *pixels.Colours, n int) {
		z.Image(op.W, op.H, op.Of(record, n), x[n*size:], y[n*size:])
	})
}
