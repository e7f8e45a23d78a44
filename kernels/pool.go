package kernels

// MaxPool is a max pooling over rows and columns, and with T over the frames of clips
// [N,T,H,W,C] too. Padding is never the maximum. OutH = (H+2*Pad-Size)/Stride+1.
// Buffers: x, y, index. The index has a uint8 for each output: the position of the first
// maximum in the window, frame by frame, row major, counted from the padded corner.
type MaxPool struct {
	N, H, W, C        int
	Size, Stride, Pad int
	T, SizeT, StrideT int // frames of a clip, of a window, and between windows; 0 for images
	Type              Type
}

// OutH returns the output's height.
func (op MaxPool) OutH() int { return (op.H+2*op.Pad-op.Size)/op.Stride + 1 }

// OutW returns the output's width.
func (op MaxPool) OutW() int { return (op.W+2*op.Pad-op.Size)/op.Stride + 1 }

// OutT returns the output's frames: 1 for an image.
func (op MaxPool) OutT() int { return (max(op.T, 1)-max(op.SizeT, 1))/max(op.StrideT, 1) + 1 }

// InLen and OutLen return the elements of x and y.
func (op MaxPool) InLen() int  { return op.N * max(op.T, 1) * op.H * op.W * op.C }
func (op MaxPool) OutLen() int { return op.N * op.OutT() * op.OutH() * op.OutW() * op.C }

func (op MaxPool) Name() string { return "maxpool" }
func (op MaxPool) FLOPs() float64 {
	return float64(op.OutLen()) * float64(max(op.SizeT, 1)*op.Size*op.Size)
}
func (op MaxPool) Bytes() float64 { return traffic(op.Args()) }

func (op MaxPool) Args() []Arg {
	return []Arg{{"x", In, op.Type, op.InLen()}, {"y", Out, op.Type, op.OutLen()}, {"index", Out, U8, op.OutLen()}}
}

func (op MaxPool) Reference(bufs [][]byte) {
	y := Load(bufs[1], op.Type)
	op.Ref(Load(bufs[0], op.Type), y, bufs[2])
	Store(bufs[1], op.Type, y)
}

// each calls f for every output element o and element i of its window, whose
// position there is t. Positions in the padding are left out.
func (op MaxPool) each(f func(o, i, t int)) {
	oh, ow, ot := op.OutH(), op.OutW(), op.OutT()
	for o := range op.OutLen() {
		c, j, i, frame, n := o%op.C, o/op.C%ow, o/op.C/ow%oh, o/op.C/ow/oh%ot, o/op.C/ow/oh/ot
		for q := range max(op.SizeT, 1) {
			image := n*max(op.T, 1) + frame*max(op.StrideT, 1) + q
			for r := range op.Size {
				for s := range op.Size {
					h, w := i*op.Stride+r-op.Pad, j*op.Stride+s-op.Pad
					if h >= 0 && h < op.H && w >= 0 && w < op.W {
						f(o, ((image*op.H+h)*op.W+w)*op.C+c, (q*op.Size+r)*op.Size+s)
					}
				}
			}
		}
	}
}

// Ref takes the first of equal maxima, and a NaN as PyTorch does: it wins.
func (op MaxPool) Ref(x, y []float32, index []uint8) {
	empty := make([]bool, op.OutLen()) // false once a position was seen
	for o := range empty {
		empty[o] = true
	}
	op.each(func(o, i, t int) {
		if empty[o] || x[i] > y[o] || x[i] != x[i] {
			y[o], index[o], empty[o] = x[i], uint8(t), false
		}
	})
}

// MaxPoolBackward adds each dy at the saved position. It writes all of dx.
// Buffers: dy, index, dx.
type MaxPoolBackward struct{ MaxPool }

func (op MaxPoolBackward) Name() string   { return "maxpool_backward" }
func (op MaxPoolBackward) FLOPs() float64 { return float64(op.OutLen()) }
func (op MaxPoolBackward) Bytes() float64 { return traffic(op.Args()) }

func (op MaxPoolBackward) Args() []Arg {
	return []Arg{{"dy", In, op.Type, op.OutLen()}, {"index", In, U8, op.OutLen()}, {"dx", Out, op.Type, op.InLen()}}
}

func (op MaxPoolBackward) Reference(bufs [][]byte) {
	dx := Load(bufs[2], op.Type)
	op.Ref(Load(bufs[0], op.Type), bufs[1], dx)
	Store(bufs[2], op.Type, dx)
}

// Ref adds each dy to the element that its window's maximum came from.
func (op MaxPoolBackward) Ref(dy []float32, index []uint8, dx []float32) {
	sum := make([]float64, op.InLen())
	op.each(func(o, i, t int) {
		if t == int(index[o]) {
			sum[i] += float64(dy[o])
		}
	})
	narrow(dx, sum)
}

// AvgPool averages over all H*W positions: y is [N,C]. Buffers: x, y.
type AvgPool struct {
	N, H, W, C int
	Type       Type
}

func (op AvgPool) Name() string   { return "avgpool" }
func (op AvgPool) FLOPs() float64 { return float64(op.N * op.H * op.W * op.C) }
func (op AvgPool) Bytes() float64 { return traffic(op.Args()) }

func (op AvgPool) Args() []Arg {
	return []Arg{{"x", In, op.Type, op.N * op.H * op.W * op.C}, {"y", Out, op.Type, op.N * op.C}}
}

func (op AvgPool) Reference(bufs [][]byte) {
	y := Load(bufs[1], op.Type)
	op.Ref(Load(bufs[0], op.Type), y)
	Store(bufs[1], op.Type, y)
}

// Ref computes y[n,c] = mean over positions of x[n,position,c].
func (op AvgPool) Ref(x, y []float32) {
	hw := op.H * op.W
	for n := range op.N {
		for c := range op.C {
			var sum float64
			for p := range hw {
				sum += float64(x[(n*hw+p)*op.C+c])
			}
			y[n*op.C+c] = float32(sum / float64(hw))
		}
	}
}

// AvgPoolBackward spreads dy/(H*W). Buffers: dy [N,C], dx.
type AvgPoolBackward struct{ AvgPool }

func (op AvgPoolBackward) Name() string   { return "avgpool_backward" }
func (op AvgPoolBackward) FLOPs() float64 { return float64(op.N * op.C) }
func (op AvgPoolBackward) Bytes() float64 { return traffic(op.Args()) }

func (op AvgPoolBackward) Args() []Arg {
	return []Arg{{"dy", In, op.Type, op.N * op.C}, {"dx", Out, op.Type, op.N * op.H * op.W * op.C}}
}

func (op AvgPoolBackward) Reference(bufs [][]byte) {
	dx := Load(bufs[1], op.Type)
	op.Ref(Load(bufs[0], op.Type), dx)
	Store(bufs[1], op.Type, dx)
}

// Ref computes dx[n,position,c] = dy[n,c] / (H*W).
func (op AvgPoolBackward) Ref(dy, dx []float32) {
	hw := op.H * op.W
	for i := range dx[:op.N*hw*op.C] {
		n, c := i/(hw*op.C), i%op.C
		dx[i] = dy[n*op.C+c] / float32(hw)
	}
}
