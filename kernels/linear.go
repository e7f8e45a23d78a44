package kernels

// Linear computes y[N,Out] = x[N,In] w^T + bias, w is [Out,In]. y is float32
// (logits). Buffers: x, w, y, bias.
type Linear struct {
	N, In, Out int
	Type       Type
}

func (op Linear) Name() string   { return "linear" }
func (op Linear) FLOPs() float64 { return 2 * float64(op.N) * float64(op.In) * float64(op.Out) }
func (op Linear) Bytes() float64 { return traffic(op.Args()) }

func (op Linear) Args() []Arg {
	return []Arg{{"x", In, op.Type, op.N * op.In}, {"w", In, op.Type, op.Out * op.In},
		{"y", Out, F32, op.N * op.Out}, {"bias", In, F32, op.Out}}
}

func (op Linear) Reference(bufs [][]byte) {
	op.Ref(Load(bufs[0], op.Type), Load(bufs[1], op.Type), Floats(bufs[2]), Floats(bufs[3]))
}

// Ref computes y[n,o] = sum over i of x[n,i] w[o,i], plus bias[o].
func (op Linear) Ref(x, w, y, bias []float32) {
	for n := range op.N {
		for o := range op.Out {
			sum := float64(bias[o])
			for i := range op.In {
				sum += float64(x[n*op.In+i]) * float64(w[o*op.In+i])
			}
			y[n*op.Out+o] = float32(sum)
		}
	}
}

// LinearBackward computes dx (Type), dw and dbias (float32) from dy (float32).
// Buffers: dy, x, w, dx, dw, dbias.
type LinearBackward struct{ Linear }

func (op LinearBackward) Name() string { return "linear_backward" }
func (op LinearBackward) FLOPs() float64 {
	return 4 * float64(op.N) * float64(op.In) * float64(op.Out)
}
func (op LinearBackward) Bytes() float64 { return traffic(op.Args()) }

func (op LinearBackward) Args() []Arg {
	return []Arg{{"dy", In, F32, op.N * op.Out}, {"x", In, op.Type, op.N * op.In}, {"w", In, op.Type, op.Out * op.In},
		{"dx", Out, op.Type, op.N * op.In}, {"dw", Out, F32, op.Out * op.In}, {"dbias", Out, F32, op.Out}}
}

func (op LinearBackward) Reference(bufs [][]byte) {
	dx := Load(bufs[3], op.Type)
	op.Ref(Floats(bufs[0]), Load(bufs[1], op.Type), Load(bufs[2], op.Type), dx, Floats(bufs[4]), Floats(bufs[5]))
	Store(bufs[3], op.Type, dx)
}

// Ref computes dx = dy w, dw = dy^T x, dbias = the column sums of dy.
func (op LinearBackward) Ref(dy, x, w, dx, dw, dbias []float32) {
	for n := range op.N {
		for i := range op.In {
			var sum float64
			for o := range op.Out {
				sum += float64(dy[n*op.Out+o]) * float64(w[o*op.In+i])
			}
			dx[n*op.In+i] = float32(sum)
		}
	}
	for o := range op.Out {
		for i := range op.In {
			var sum float64
			for n := range op.N {
				sum += float64(dy[n*op.Out+o]) * float64(x[n*op.In+i])
			}
			dw[o*op.In+i] = float32(sum)
		}
	}
	sumRows(dbias, dy, op.N, op.Out)
}
