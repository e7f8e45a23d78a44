package kernels

// The transforms of uint8 RGB images that a device can make before Augment, each of a batch
// of images. Buffers: x (uint8), record (int32 [N,Words]), y (uint8 [N,OutH,OutW,3]).
//
// A sample's record begins with the AugLen numbers of Augment; the last of them says where a
// packed sample begins. The numbers of each transform follow, from its At on. The loader writes
// the record and decides there what is random (loader/transform says what each number is). All
// arithmetic is in integers, or in floats without fused multiply-adds, so that the pixels equal
// the loader's to the bit.

// Record says where an operation's numbers are in a sample's record.
type Record struct{ Words, At int }

// Of returns the operation's numbers for image n.
func (r Record) Of(record []int32, n int) []int32 { return record[n*r.Words+r.At : (n+1)*r.Words] }

// AugOffset is where a packed sample begins in x, in units of Packing bytes.
const (
	AugOffset = 3
	Packing   = 16
)

// The numbers of a resample, as places in its part of the record. All are in pixels but Mirrored.
const (
	PartX         = iota // the part of the image that is resized: its left edge
	PartY                // its top edge
	PartW                // its width
	PartH                // its height
	ResizedW             // the width that the part is resized to
	ResizedH             // the height that the part is resized to
	WindowX              // the window of the result that is kept: its left edge
	WindowY              // its top edge
	WindowW              // its width
	WindowH              // its height
	Mirrored             // whether the window is mirrored, left to right: 0 is no
	HeldX                // the part of the image that x holds: its left edge, counted from PartX
	HeldY                // its top edge, counted from PartY
	HeldW                // its width
	HeldH                // its height
	ResampleWords        // how many numbers these are
)

// MaxTaps bounds the inputs that an output may have along one axis.
const MaxTaps = 16

// Resample resizes a part of each image, bilinear with antialiasing, as Pillow does.
type Resample struct {
	N, OutH, OutW int
	In            int // bytes of a sample in x; the most of a packed one
	Packed        bool
	Record
}

func (op Resample) Name() string { return "resample" }

// FLOPs counts four taps along each axis.
func (op Resample) FLOPs() float64 { return 2 * 4 * 4 * 3 * float64(op.N*op.OutH*op.OutW) }
func (op Resample) Bytes() float64 { return traffic(op.Args()) }
func (op Resample) Args() []Arg    { return imageArgs(op.N, op.In, op.Words, op.OutH*op.OutW*3) }

func imageArgs(n, in, words, out int) []Arg {
	return []Arg{{"x", In, U8, n * in}, {"record", In, I32, n * words}, {"y", Out, U8, n * out}}
}

func (op Resample) Reference(bufs [][]byte) { each(op.N, bufs, op.Image) }

func each(n int, bufs [][]byte, image func(n int, x []byte, record []int32, y []byte)) {
	for i := range n {
		image(i, bufs[0], Ints(bufs[1]), bufs[2])
	}
}

// taps returns the inputs [lo, lo+n) of output i where in is resized to out, with their weights
// in units of 2^-22. The weights are a triangle as wide as an output, or as an input if that is
// wider. Distances are in units of 1/(2 out).
func taps(in, out, i int, w *[MaxTaps]int64) (lo, n int) {
	wide := 2 * max(in, out)
	centre := (2*i + 1) * in
	sum := int64(0)
	lo = max(0, centre-wide-out) / (2 * out)
	for k := lo; k < in; k++ {
		d := (2*k+1)*out - centre
		v := int64(wide - max(d, -d))
		if d >= wide {
			break
		}
		if v <= 0 && n == 0 {
			lo = k + 1
			continue
		}
		w[n] = v
		sum += v
		n++
	}
	for k := range n {
		w[k] = (w[k]<<23 + sum) / (2 * sum)
	}
	return lo, n
}

// Image makes image n.
func (op Resample) Image(n int, x []byte, record []int32, y []byte) {
	p := op.Of(record, n)
	from := n * op.In
	if op.Packed {
		from = int(record[n*op.Words+AugOffset]) * Packing
	}
	x = x[from:]
	cols := make([]struct {
		lo, n int
		w     [MaxTaps]int64
	}, op.OutW)
	for i := range cols {
		c := &cols[i]
		c.lo, c.n = taps(int(p[PartW]), int(p[ResizedW]), i+int(p[WindowX]), &c.w)
	}
	var down [MaxTaps]int64
	for i := range op.OutH {
		top, rows := taps(int(p[PartH]), int(p[ResizedH]), i+int(p[WindowY]), &down)
		for j := range op.OutW {
			c := &cols[j]
			to := y[((n*op.OutH+i)*op.OutW+j)*3:]
			if p[Mirrored] != 0 {
				to = y[((n*op.OutH+i)*op.OutW+op.OutW-1-j)*3:]
			}
			for ch := range 3 {
				sum := int64(1) << 21
				for r := range rows {
					row := (top + r - int(p[HeldY])) * int(p[HeldW])
					along := int64(1) << 21
					for k := range c.n {
						along += int64(x[(row+c.lo+k-int(p[HeldX]))*3+ch]) * c.w[k]
					}
					sum += min(along>>22, 255) * down[r]
				}
				to[ch] = byte(min(sum>>22, 255))
			}
		}
	}
}

// The numbers of a shift. Output (i,j) shows input (i+y, j+x), zero outside. Then it may be
// mirrored left to right and top to bottom.
const (
	ShiftY = iota
	ShiftX
	ShiftFlip
	ShiftUpside
	ShiftWords
)

// Shift cuts a part out of each image, with zeros outside of the image, and mirrors it.
type Shift struct {
	N, H, W, OutH, OutW int
	Record
}

func (op Shift) Name() string            { return "shift" }
func (op Shift) FLOPs() float64          { return 0 }
func (op Shift) Bytes() float64          { return traffic(op.Args()) }
func (op Shift) Args() []Arg             { return imageArgs(op.N, op.H*op.W*3, op.Words, op.OutH*op.OutW*3) }
func (op Shift) Reference(bufs [][]byte) { each(op.N, bufs, op.Image) }

// Image makes image n.
func (op Shift) Image(n int, x []byte, record []int32, y []byte) {
	p := op.Of(record, n)
	for i := range op.OutH {
		for j := range op.OutW {
			r, c := i, j
			if p[ShiftFlip] != 0 {
				c = op.OutW - 1 - j
			}
			if p[ShiftUpside] != 0 {
				r = op.OutH - 1 - i
			}
			r, c = r+int(p[ShiftY]), c+int(p[ShiftX])
			for ch := range 3 {
				v := byte(0)
				if r >= 0 && r < op.H && c >= 0 && c < op.W {
					v = x[((n*op.H+r)*op.W+c)*3+ch]
				}
				y[((n*op.OutH+i)*op.OutW+j)*3+ch] = v
			}
		}
	}
}

// MaxBlur bounds the taps of a Blur.
const MaxBlur = 31

// Blur blurs each image along rows, then along columns. Beyond its borders the image is mirrored.
// The numbers are the weights from the middle outwards, as float32.
type Blur struct {
	N, H, W, Taps int
	Record
}

func (op Blur) Name() string            { return "blur" }
func (op Blur) FLOPs() float64          { return 2 * 2 * 3 * float64(op.N*op.H*op.W*op.Taps) }
func (op Blur) Bytes() float64          { return traffic(op.Args()) }
func (op Blur) Args() []Arg             { return imageArgs(op.N, op.H*op.W*3, op.Words, op.H*op.W*3) }
func (op Blur) Reference(bufs [][]byte) { each(op.N, bufs, op.Image) }

// Mirror returns the place in 0..n-1 that place i, which may lie outside, is read from.
func Mirror(i, n int) int {
	for n > 1 && (i < 0 || i >= n) {
		if i < 0 {
			i = -i
		} else {
			i = 2*n - 2 - i
		}
	}
	if n == 1 {
		return 0
	}
	return i
}

// Image makes image n. The sums are taken from the middle outwards.
func (op Blur) Image(n int, x []byte, record []int32, y []byte) {
	size := op.H * op.W * 3
	x, y = x[n*size:], y[n*size:]
	weights := floats(op.Of(record, n)[:op.Taps/2+1])
	mid := make([]float32, size)
	for i := range op.H {
		row := i * op.W * 3
		for j := range op.W {
			for c := range 3 {
				v := float32(weights[0] * float32(x[row+j*3+c]))
				for k := 1; k < len(weights); k++ {
					a, b := x[row+Mirror(j-k, op.W)*3+c], x[row+Mirror(j+k, op.W)*3+c]
					v += float32(weights[k] * (float32(a) + float32(b)))
				}
				mid[row+j*3+c] = v
			}
		}
	}
	for i := range op.H {
		for at := range op.W * 3 {
			v := float32(weights[0] * mid[i*op.W*3+at])
			for k := 1; k < len(weights); k++ {
				v += float32(weights[k] * (mid[Mirror(i-k, op.H)*op.W*3+at] + mid[Mirror(i+k, op.H)*op.W*3+at]))
			}
			y[i*op.W*3+at] = byte(v + 0.5)
		}
	}
}
