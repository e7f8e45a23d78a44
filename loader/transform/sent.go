package transform

import "dev.gpustall/loader"

// sent is the part of a pipeline that the device makes, and what is sent to the device for it.
type sent struct {
	from   int  // the host makes the steps before this one
	bytes  int  // of a sample; if packed, of the largest
	packed bool // samples are of any size; the device's first step resizes them to one size
	words  int  // of the device's steps
	h, w   int  // of the images that are sent, if they have one size
	steps  []loader.DeviceStep
}

// augWords are the parameters that end every record: shift, flip and normalisation, in the
// order of kernels.Augment.
const augWords = 4

// Limits of the kernels: taps of a blur, and taps of a resample along an axis.
const (
	deviceBlur = 31
	deviceTaps = 16
)

// split leaves to the device the last steps that all have a kernel, and whose images have one
// size or get one by the first of these steps.
func (t *Pipeline) split(in Input) {
	sizes := [][2]int{{in.H, in.W}}
	for _, s := range t.steps {
		last := sizes[len(sizes)-1]
		h, w := s.shape(last[0], last[1])
		sizes = append(sizes, [2]int{h, w})
	}
	d := &t.sent
	for d.from = len(t.steps); d.from > 0 && hasKernel(t.steps[d.from-1], sizes[d.from-1]); {
		d.from--
		if sizes[d.from][0] == 0 {
			d.packed = true // the steps before it make images of any size
			break
		}
	}
	d.h, d.w = sizes[d.from][0], sizes[d.from][1]
	if d.bytes = 3 * d.h * d.w; d.packed {
		// A packed sample may take as much as a sample of floats. A larger one is resized on
		// the host.
		d.bytes = 4 * 3 * sizes[d.from+1][0] * sizes[d.from+1][1]
	}
	for i, s := range t.steps[d.from:] {
		from, to := sizes[d.from+i], sizes[d.from+i+1]
		step := loader.DeviceStep{InH: from[0], InW: from[1], OutH: to[0], OutW: to[1], At: augWords + d.words}
		switch s := s.(type) {
		case *resample:
			step.Kind = loader.DeviceResample
		case *place, *flip:
			step.Kind = loader.DeviceShift
		case *blur:
			step.Kind, step.Taps = loader.DeviceBlur, s.taps
		case *colours:
			step.Kind = loader.DeviceColours
		}
		d.steps = append(d.steps, step)
		d.words += s.words()
	}
}

// hasKernel reports whether a device can make a step, for images of a size.
func hasKernel(s step, in [2]int) bool {
	switch s := s.(type) {
	case *resample:
		h, w := s.shape(0, 0)
		return in[0] > 0 && narrow(in[0], s.size[0]) && narrow(in[1], s.size[1]) || in[0] == 0 && h > 0 && w > 0
	case *blur:
		return in[0] > 0 && s.taps <= deviceBlur
	}
	return in[0] > 0
}

// narrow reports whether a resize has few enough taps for a device.
func narrow(in, out int) bool { return 2*in < (deviceTaps-1)*out || in <= out }

// DeviceSteps returns the steps that the device makes.
func (t *Pipeline) DeviceSteps() []loader.DeviceStep { return t.sent.steps }

// Device makes the host's steps. It writes the resulting pixels, or the part of them that the
// device needs, and the decisions of all other steps.
func (t *Pipeline) Device(s *loader.Sample, rng *loader.RNG, dst []byte, record []int32) int {
	if len(t.steps) == 0 {
		return t.Crop.Device(s, rng, dst, record)
	}
	z := t.take()
	defer t.give(z)
	t.drawAll(z, s.W, s.H, rng)
	dy, dx, mirrored := t.Crop.draw(rng)
	augmentation(record, dy, dx, mirrored)
	in, p := t.apply(z, s, t.sent.from)
	record = record[augWords:]
	copy(record, p)
	if !t.sent.packed {
		return put(in, loader.Rect{W: in.w, H: in.h}, dst)
	}
	r := t.steps[t.sent.from].(*resample)
	need, j := r.needs(in.w, in.h, p), r.job(p)
	if 3*need.W*need.H > len(dst) || !narrow(j.Part.W, j.W) || !narrow(j.Part.H, j.H) {
		z.work = j
		z.resize(in, dst)
		unchanged(record, j.Window.W, j.Window.H)
		return 3 * j.Window.W * j.Window.H
	}
	record[11], record[12] = int32(need.X)-p[0], int32(need.Y)-p[1]
	record[13], record[14] = int32(need.W), int32(need.H)
	return put(in, need, dst)
}

// unchanged writes the numbers of a resample that changes nothing.
func unchanged(p []int32, w, h int) {
	for i, v := range [resampleWords]int{0, 0, w, h, w, h, 0, 0, w, h, 0, 0, 0, w, h} {
		p[i] = int32(v)
	}
}

// put writes a part of an image to dst.
func put(in *image, part loader.Rect, dst []byte) int {
	n := 3 * part.W
	for y := range part.H {
		copy(dst[y*n:(y+1)*n], in.row(part.X, part.Y+y, part.W))
	}
	return n * part.H
}
