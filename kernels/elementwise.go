package kernels

// ReLUBackward computes dx = dy where y > 0, else 0. Buffers: dy, y, dx. dx may be dy's buffer.
type ReLUBackward struct {
	N    int // elements
	Type Type
}

func (op ReLUBackward) Name() string   { return "relu_backward" }
func (op ReLUBackward) FLOPs() float64 { return float64(op.N) }
func (op ReLUBackward) Bytes() float64 { return traffic(op.Args()) }

func (op ReLUBackward) Args() []Arg {
	return []Arg{{"dy", In, op.Type, op.N}, {"y", In, op.Type, op.N}, {"dx", Out, op.Type, op.N}}
}

func (op ReLUBackward) Reference(bufs [][]byte) {
	dx := Load(bufs[2], op.Type)
	op.Ref(Load(bufs[0], op.Type), Load(bufs[1], op.Type), dx)
	Store(bufs[2], op.Type, dx)
}

// Ref computes dx = dy where y > 0, else 0.
func (op ReLUBackward) Ref(dy, y, dx []float32) {
	for i := range op.N {
		if y[i] > 0 {
			dx[i] = dy[i]
		} else {
			dx[i] = 0
		}
	}
}

// Add computes y = a + b [then ReLU]. Buffers: a, b, y. y may be either input's buffer.
type Add struct {
	N    int
	Type Type
	ReLU bool
}

func (op Add) Name() string   { return "add" }
func (op Add) FLOPs() float64 { return float64(op.N * (1 + count(op.ReLU))) }
func (op Add) Bytes() float64 { return traffic(op.Args()) }

func (op Add) Args() []Arg {
	return []Arg{{"a", In, op.Type, op.N}, {"b", In, op.Type, op.N}, {"y", Out, op.Type, op.N}}
}

func (op Add) Reference(bufs [][]byte) {
	y := Load(bufs[2], op.Type)
	op.Ref(Load(bufs[0], op.Type), Load(bufs[1], op.Type), y)
	Store(bufs[2], op.Type, y)
}

// Ref computes y = a + b [then ReLU]. A NaN stays one.
func (op Add) Ref(a, b, y []float32) {
	for i := range op.N {
		y[i] = a[i] + b[i]
		if op.ReLU && y[i] < 0 {
			y[i] = 0
		}
	}
}

// Cast converts N float32 to Type. Buffers: x, y.
type Cast struct {
	N    int
	Type Type
}

func (op Cast) Name() string   { return "cast" }
func (op Cast) FLOPs() float64 { return 0 }
func (op Cast) Bytes() float64 { return traffic(op.Args()) }

func (op Cast) Args() []Arg {
	return []Arg{{"x", In, F32, op.N}, {"y", Out, op.Type, op.N}}
}

func (op Cast) Reference(bufs [][]byte) {
	Store(bufs[1], op.Type, Floats(bufs[0])[:op.N])
}

// Zero clears N bytes. Buffers: x.
type Zero struct{ N int }

func (op Zero) Name() string   { return "zero" }
func (op Zero) FLOPs() float64 { return 0 }
func (op Zero) Bytes() float64 { return traffic(op.Args()) }

func (op Zero) Args() []Arg { return []Arg{{"x", Out, U8, op.N}} }

func (op Zero) Reference(bufs [][]byte) { clear(bufs[0][:op.N]) }
