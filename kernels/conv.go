package kernels

// Conv is the geometry of a 2-D convolution with square stride and padding.
type Conv struct {
	N, H, W, C  int // input
	K, R, S     int // output channels, filter rows and columns
	Stride, Pad int
}

// OutH returns the output's height.
func (c Conv) OutH() int { return (c.H+2*c.Pad-c.R)/c.Stride + 1 }

// OutW returns the output's width.
func (c Conv) OutW() int { return (c.W+2*c.Pad-c.S)/c.Stride + 1 }

// Pixels returns the positions of the output, of all images.
func (c Conv) Pixels() int { return c.N * c.OutH() * c.OutW() }

// InLen, OutLen and WeightLen return the elements of x, y and w.
func (c Conv) InLen() int     { return c.N * c.H * c.W * c.C }
func (c Conv) OutLen() int    { return c.Pixels() * c.K }
func (c Conv) WeightLen() int { return c.K * c.R * c.S * c.C }

func (c Conv) flops() float64 {
	return 2 * float64(c.Pixels()) * float64(c.K) * float64(c.R*c.S*c.C)
}

// each calls f for every pair of an output pixel and an input pixel that a filter
// position joins. The indices p and q are of pixels of y and x, and t is of the filter
// position.
func (c Conv) each(f func(p, q, t int)) {
	oh, ow := c.OutH(), c.OutW()
	for n := range c.N {
		for i := range oh {
			for j := range ow {
				for r := range c.R {
					for s := range c.S {
						h, w := i*c.Stride+r-c.Pad, j*c.Stride+s-c.Pad
						if h >= 0 && h < c.H && w >= 0 && w < c.W {
							f((n*oh+i)*ow+j, (n*c.H+h)*c.W+w, r*c.S+s)
						}
					}
				}
			}
		}
	}
}

// ConvForward computes y = conv(x, w) [+ bias] [then ReLU].
// Buffers: x, w, y, and bias (float32[K]) when Bias.
type ConvForward struct {
	Conv
	Type       Type
	Bias, ReLU bool
}

func (op ConvForward) Name() string   { return "conv_forward" }
func (op ConvForward) FLOPs() float64 { return op.flops() }
func (op ConvForward) Bytes() float64 { return traffic(op.Args()) }

func (op ConvForward) Args() []Arg {
	args := []Arg{{"x", In, op.Type, op.InLen()}, {"w", In, op.Type, op.WeightLen()}, {"y", Out, op.Type, op.OutLen()}}
	if op.Bias {
		args = append(args, Arg{"bias", In, F32, op.K})
	}
	return args
}

func (op ConvForward) Reference(bufs [][]byte) {
	x, w, y := Load(bufs[0], op.Type), Load(bufs[1], op.Type), Load(bufs[2], op.Type)
	var bias []float32
	if op.Bias {
		bias = Floats(bufs[3])
	}
	op.Ref(x, w, y, bias)
	Store(bufs[2], op.Type, y)
}

// Ref computes y[p,k] = sum over filter positions t and channels c of
// x[q(p,t),c] w[k,t,c], with bias and ReLU as asked.
func (op ConvForward) Ref(x, w, y, bias []float32) {
	sum := make([]float64, op.OutLen())
	taps := op.R * op.S
	op.each(func(p, q, t int) {
		for k := range op.K {
			for c := range op.C {
				sum[p*op.K+k] += float64(x[q*op.C+c]) * float64(w[(k*taps+t)*op.C+c])
			}
		}
	})
	for i, v := range sum {
		if op.Bias {
			v += float64(bias[i%op.K])
		}
		if op.ReLU && v < 0 {
			v = 0
		}
		y[i] = float32(v)
	}
}

// ConvBackwardData computes dx (+)= the gradient with respect to x.
// Buffers: dy, w, dx. With Accumulate it adds to dx.
type ConvBackwardData struct {
	Conv
	Type       Type
	Accumulate bool
}

func (op ConvBackwardData) Name() string   { return "conv_backward_data" }
func (op ConvBackwardData) FLOPs() float64 { return op.flops() }
func (op ConvBackwardData) Bytes() float64 { return traffic(op.Args()) }

func (op ConvBackwardData) Args() []Arg {
	role := Out
	if op.Accumulate {
		role = InOut
	}
	return []Arg{{"dy", In, op.Type, op.OutLen()}, {"w", In, op.Type, op.WeightLen()}, {"dx", role, op.Type, op.InLen()}}
}

func (op ConvBackwardData) Reference(bufs [][]byte) {
	dy, w, dx := Load(bufs[0], op.Type), Load(bufs[1], op.Type), Load(bufs[2], op.Type)
	op.Ref(dy, w, dx)
	Store(bufs[2], op.Type, dx)
}

// Ref computes dx[q,c] (+)= sum over p, t that meet q, and k of dy[p,k] w[k,t,c].
func (op ConvBackwardData) Ref(dy, w, dx []float32) {
	sum := make([]float64, op.InLen())
	if op.Accumulate {
		for i, v := range dx[:len(sum)] {
			sum[i] = float64(v)
		}
	}
	taps := op.R * op.S
	op.each(func(p, q, t int) {
		for k := range op.K {
			for c := range op.C {
				sum[q*op.C+c] += float64(dy[p*op.K+k]) * float64(w[(k*taps+t)*op.C+c])
			}
		}
	})
	narrow(dx, sum)
}

// ConvBackwardWeight computes dw (float32 KRSC) and, when Bias, dbias (float32[K]).
// Buffers: x, dy, dw, and dbias when Bias.
type ConvBackwardWeight struct {
	Conv
	Type Type
	Bias bool
}

func (op ConvBackwardWeight) Name() string   { return "conv_backward_weight" }
func (op ConvBackwardWeight) FLOPs() float64 { return op.flops() }
func (op ConvBackwardWeight) Bytes() float64 { return traffic(op.Args()) }

func (op ConvBackwardWeight) Args() []Arg {
	args := []Arg{{"x", In, op.Type, op.InLen()}, {"dy", In, op.Type, op.OutLen()}, {"dw", Out, F32, op.WeightLen()}}
	if op.Bias {
		args = append(args, Arg{"dbias", Out, F32, op.K})
	}
	return args
}

func (op ConvBackwardWeight) Reference(bufs [][]byte) {
	var dbias []float32
	if op.Bias {
		dbias = Floats(bufs[3])
	}
	op.Ref(Load(bufs[0], op.Type), Load(bufs[1], op.Type), Floats(bufs[2]), dbias)
}

// Ref computes dw[k,t,c] = sum over pixels of dy[p,k] x[q(p,t),c] and
// dbias[k] = sum over pixels of dy[p,k].
func (op ConvBackwardWeight) Ref(x, dy, dw, dbias []float32) {
	sum := make([]float64, op.WeightLen())
	taps := op.R * op.S
	op.each(func(p, q, t int) {
		for k := range op.K {
			for c := range op.C {
				sum[(k*taps+t)*op.C+c] += float64(dy[p*op.K+k]) * float64(x[q*op.C+c])
			}
		}
	})
	narrow(dw, sum)
	if op.Bias {
		sumRows(dbias, dy, op.Pixels(), op.K)
	}
}
