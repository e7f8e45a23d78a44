package kernels

// A convolution over frames, rows and columns (Conv3d) is computed as a 2-D convolution of
// stacked frames. Each position of a stacked frame has the channels of all frames that a filter
// covers, one after the other. The 2-D filters [K,R,S,Taps*C] are the 3-D ones.

// StackFrames makes y [N,OutT,Pixels,Taps*C] from x [N,T,Pixels,C]. Frame t of y has the
// frames t-Pad .. t-Pad+Taps-1 of x, with zeros for frames outside of x. Buffers: x, y.
type StackFrames struct {
	N, T, Pixels, C int
	Taps, Pad       int
	Type            Type
}

// OutT returns the frames of y.
func (op StackFrames) OutT() int { return op.T + 2*op.Pad - op.Taps + 1 }

// InLen and OutLen return the elements of x and y.
func (op StackFrames) InLen() int  { return op.N * op.T * op.Pixels * op.C }
func (op StackFrames) OutLen() int { return op.N * op.OutT() * op.Pixels * op.Taps * op.C }

func (op StackFrames) Name() string   { return "stack_frames" }
func (op StackFrames) FLOPs() float64 { return 0 }
func (op StackFrames) Bytes() float64 { return traffic(op.Args()) }

func (op StackFrames) Args() []Arg {
	return []Arg{{"x", In, op.Type, op.InLen()}, {"y", Out, op.Type, op.OutLen()}}
}

func (op StackFrames) Reference(bufs [][]byte) {
	y := Load(bufs[1], op.Type)
	op.Ref(Load(bufs[0], op.Type), y)
	Store(bufs[1], op.Type, y)
}

// Each calls f for every position of y's frames and every tap. x and y are where the channels
// begin; x is negative outside of the clip.
func (op StackFrames) Each(first, end int, f func(x, y int)) {
	for i := first; i < end; i++ { // a frame of y
		n, t := i/op.OutT(), i%op.OutT()
		for p := range op.Pixels {
			for k := range op.Taps {
				x := -1
				if from := t + k - op.Pad; from >= 0 && from < op.T {
					x = ((n*op.T+from)*op.Pixels + p) * op.C
				}
				f(x, ((i*op.Pixels+p)*op.Taps+k)*op.C)
			}
		}
	}
}

// Ref copies each tap's channels.
func (op StackFrames) Ref(x, y []float32) {
	op.Each(0, op.N*op.OutT(), func(from, to int) {
		if from < 0 {
			clear(y[to : to+op.C])
			return
		}
		copy(y[to:to+op.C], x[from:])
	})
}

// StackFramesBackward adds up the gradients of the copies that StackFrames made. It writes all
// of dx. Buffers: dy, dx.
type StackFramesBackward struct{ StackFrames }

func (op StackFramesBackward) Name() string   { return "stack_frames_backward" }
func (op StackFramesBackward) FLOPs() float64 { return float64(op.OutLen()) }
func (op StackFramesBackward) Bytes() float64 { return traffic(op.Args()) }

func (op StackFramesBackward) Args() []Arg {
	return []Arg{{"dy", In, op.Type, op.OutLen()}, {"dx", Out, op.Type, op.InLen()}}
}

func (op StackFramesBackward) Reference(bufs [][]byte) {
	dx := Load(bufs[1], op.Type)
	op.Ref(Load(bufs[0], op.Type), dx)
	Store(bufs[1], op.Type, dx)
}

// Ref adds each tap's gradient to the channels that it was copied from.
func (op StackFramesBackward) Ref(dy, dx []float32) {
	sum := make([]float64, op.InLen())
	op.Each(0, op.N*op.OutT(), func(to, from int) {
		for c := range op.C {
			if to >= 0 {
				sum[to+c] += float64(dy[from+c])
			}
		}
	})
	narrow(dx, sum)
}
