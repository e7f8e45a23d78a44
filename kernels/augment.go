package kernels

// Augment turns uint8 NHWC pixels into normalised activations on the device. It shifts each
// image by the sample's crop offset, with zeros around it, flips it and normalises it. Padding
// is normalised like a zero pixel, as on the host.
// Buffers: pixels (uint8 [N,H,W,C]), aug (int32 [N,AugLen], or the records of Words numbers
// that begin with those), y ([N,H,W,CPad] of Type).
type Augment struct {
	N, H, W, C int
	CPad       int // channels of y; those past C are zero
	Mean, Std  [4]float32
	Type       Type
	Words      int // of a sample in aug; 0: AugLen
}

// Record returns how many numbers of aug belong to one sample.
func (op Augment) Record() int { return max(op.Words, AugLen) }

// Augmentation of one sample, in the aug buffer.
const (
	AugDY = iota // rows: output (i,j) shows input (i+dy, j+dx), zero outside
	AugDX
	AugFlip // 1: mirrored left to right, after the shift
	AugLen  = 4
)

func (op Augment) Name() string   { return "augment" }
func (op Augment) FLOPs() float64 { return 3 * float64(op.N*op.H*op.W*op.C) }
func (op Augment) Bytes() float64 { return traffic(op.Args()) }

func (op Augment) Args() []Arg {
	pixels := op.N * op.H * op.W
	return []Arg{{"pixels", In, U8, pixels * op.C}, {"aug", In, I32, op.N * op.Record()}, {"y", Out, op.Type, pixels * op.CPad}}
}

func (op Augment) Reference(bufs [][]byte) {
	y := Load(bufs[2], op.Type)
	op.Ref(bufs[0], Ints(bufs[1]), y)
	Store(bufs[2], op.Type, y)
}

// Ref computes y = (pixel/255 - mean) / std of the shifted, flipped image.
func (op Augment) Ref(pixels []uint8, aug []int32, y []float32) {
	for o := range op.N * op.H * op.W {
		j, i, n := o%op.W, o/op.W%op.H, o/op.W/op.H
		a := aug[n*op.Record():][:AugLen]
		if a[AugFlip] != 0 {
			j = op.W - 1 - j
		}
		h, w := i+int(a[AugDY]), j+int(a[AugDX])
		inside := h >= 0 && h < op.H && w >= 0 && w < op.W
		for c := range op.CPad {
			if c >= op.C {
				y[o*op.CPad+c] = 0
				continue
			}
			var v float64
			if inside {
				v = float64(pixels[((n*op.H+h)*op.W+w)*op.C+c]) / 255
			}
			y[o*op.CPad+c] = float32((v - float64(op.Mean[c])) / float64(op.Std[c]))
		}
	}
}

// PadChannels copies float32 [Rows,C] into [Rows,CPad] of Type, zeros behind.
// Buffers: x, y.
type PadChannels struct {
	Rows, C, CPad int
	Type          Type
}

func (op PadChannels) Name() string   { return "pad_channels" }
func (op PadChannels) FLOPs() float64 { return 0 }
func (op PadChannels) Bytes() float64 { return traffic(op.Args()) }

func (op PadChannels) Args() []Arg {
	return []Arg{{"x", In, F32, op.Rows * op.C}, {"y", Out, op.Type, op.Rows * op.CPad}}
}

func (op PadChannels) Reference(bufs [][]byte) {
	y := Load(bufs[1], op.Type)
	op.Ref(Floats(bufs[0]), y)
	Store(bufs[1], op.Type, y)
}

// Ref copies C channels of each row and clears the rest.
func (op PadChannels) Ref(x, y []float32) {
	for i := range op.Rows {
		row := y[i*op.CPad : (i+1)*op.CPad]
		n := copy(row, x[i*op.C:(i+1)*op.C])
		clear(row[n:])
	}
}
