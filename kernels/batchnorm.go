package kernels

import "math"

// BatchNormForward normalises each of C channels over Rows = N*H*W positions,
// then adds the residual, then applies ReLU, as asked. Training uses the batch's
// biased variance, saves mean and 1/sqrt(var+Eps), and updates the running
// statistics with Momentum and the unbiased variance, as PyTorch does;
// evaluation uses the running ones.
// Buffers: x, y, gamma, beta, running mean, running var, saved mean, saved
// invstd (all float32[C] but x, y), and residual (like x) when Residual.
type BatchNormForward struct {
	Rows, C        int
	Type           Type
	Eps, Momentum  float32
	Train          bool
	ReLU, Residual bool
}

func (op BatchNormForward) Name() string { return "batchnorm_forward" }

// FLOPs counts, per element, 1 for the mean and 3 for the variance in training,
// 2 to normalise, and 1 each for the residual and ReLU.
func (op BatchNormForward) FLOPs() float64 {
	per := 2 + count(op.Residual) + count(op.ReLU)
	if op.Train {
		per += 4
	}
	return float64(per) * float64(op.Rows*op.C)
}

func (op BatchNormForward) Bytes() float64 { return traffic(op.Args()) }

func (op BatchNormForward) Args() []Arg {
	running, saved := In, In
	if op.Train {
		running, saved = InOut, Out
	}
	n := op.Rows * op.C
	args := []Arg{
		{"x", In, op.Type, n}, {"y", Out, op.Type, n},
		{"gamma", In, F32, op.C}, {"beta", In, F32, op.C},
		{"running mean", running, F32, op.C}, {"running var", running, F32, op.C},
		{"saved mean", saved, F32, op.C}, {"saved invstd", saved, F32, op.C},
	}
	if op.Residual {
		args = append(args, Arg{"residual", In, op.Type, n})
	}
	return args
}

func (op BatchNormForward) Reference(bufs [][]byte) {
	x, y := Load(bufs[0], op.Type), Load(bufs[1], op.Type)
	var res []float32
	if op.Residual {
		res = Load(bufs[8], op.Type)
	}
	f := Floats
	op.Ref(x, y, f(bufs[2]), f(bufs[3]), f(bufs[4]), f(bufs[5]), f(bufs[6]), f(bufs[7]), res)
	Store(bufs[1], op.Type, y)
}

// Ref computes y = (x-mean)*invstd*gamma + beta [+ residual] [then ReLU], as
// Ioffe and Szegedy, "Batch Normalization" (2015). Evaluation leaves the saved
// statistics alone. With one row the unbiased variance is taken as the biased.
func (op BatchNormForward) Ref(x, y, gamma, beta, runMean, runVar, mean, invstd, residual []float32) {
	for c := range op.C {
		var m, inv float64
		if op.Train {
			var variance float64
			m, variance = moments(x, op.Rows, op.C, c)
			inv = 1 / math.Sqrt(variance+float64(op.Eps))
			mean[c], invstd[c] = float32(m), float32(inv)
			rows := float64(op.Rows)
			a := float64(op.Momentum)
			runMean[c] = float32((1-a)*float64(runMean[c]) + a*m)
			runVar[c] = float32((1-a)*float64(runVar[c]) + a*variance*rows/max(rows-1, 1))
		} else {
			m, inv = float64(runMean[c]), 1/math.Sqrt(float64(runVar[c])+float64(op.Eps))
		}
		for i := c; i < op.Rows*op.C; i += op.C {
			v := (float64(x[i])-m)*inv*float64(gamma[c]) + float64(beta[c])
			if op.Residual {
				v += float64(residual[i])
			}
			if op.ReLU && v < 0 {
				v = 0
			}
			y[i] = float32(v)
		}
	}
}

// moments returns the mean and biased variance of channel c, in two passes.
func moments(x []float32, rows, stride, c int) (mean, variance float64) {
	for i := range rows {
		mean += float64(x[i*stride+c])
	}
	mean /= float64(rows)
	for i := range rows {
		d := float64(x[i*stride+c]) - mean
		variance += d * d
	}
	return mean, variance / float64(rows)
}

// BatchNormBackward is its gradient in training mode. With ReLU, dy is masked
// where y is not positive; with Residual the masked dy is also written to dres.
// Buffers: dy, x, y, gamma, saved mean, saved invstd, dx, dgamma, dbeta, and
// dres when Residual. dx may be dy's buffer.
type BatchNormBackward struct {
	Rows, C        int
	Type           Type
	ReLU, Residual bool
}

func (op BatchNormBackward) Name() string { return "batchnorm_backward" }

// FLOPs counts, per element, 5 for the two sums and 5 for dx, and 1 for ReLU.
func (op BatchNormBackward) FLOPs() float64 {
	return float64(10+count(op.ReLU)) * float64(op.Rows*op.C)
}

func (op BatchNormBackward) Bytes() float64 { return traffic(op.Args()) }

func (op BatchNormBackward) Args() []Arg {
	n := op.Rows * op.C
	args := []Arg{
		{"dy", In, op.Type, n}, {"x", In, op.Type, n}, {"y", In, op.Type, n},
		{"gamma", In, F32, op.C}, {"saved mean", In, F32, op.C}, {"saved invstd", In, F32, op.C},
		{"dx", Out, op.Type, n}, {"dgamma", Out, F32, op.C}, {"dbeta", Out, F32, op.C},
	}
	if op.Residual {
		args = append(args, Arg{"dres", Out, op.Type, n})
	}
	return args
}

func (op BatchNormBackward) Reference(bufs [][]byte) {
	dx := Load(bufs[6], op.Type)
	var dres []float32
	if op.Residual {
		dres = Load(bufs[9], op.Type)
	}
	f := Floats
	op.Ref(Load(bufs[0], op.Type), Load(bufs[1], op.Type), Load(bufs[2], op.Type),
		f(bufs[3]), f(bufs[4]), f(bufs[5]), dx, f(bufs[7]), f(bufs[8]), dres)
	Store(bufs[6], op.Type, dx)
	if op.Residual {
		Store(bufs[9], op.Type, dres)
	}
}

// Ref computes, with g = dy (masked by y > 0 with ReLU) and
// xhat = (x-mean)*invstd: dbeta = sum g, dgamma = sum g*xhat,
// dx = gamma*invstd*(g - dbeta/rows - xhat*dgamma/rows), dres = g.
func (op BatchNormBackward) Ref(dy, x, y, gamma, mean, invstd, dx, dgamma, dbeta, dres []float32) {
	rows := float64(op.Rows)
	grad := func(i int) float64 {
		if op.ReLU && !(y[i] > 0) {
			return 0
		}
		return float64(dy[i])
	}
	for c := range op.C {
		m, inv := float64(mean[c]), float64(invstd[c])
		var sum, dot float64
		for i := c; i < op.Rows*op.C; i += op.C {
			sum += grad(i)
			dot += grad(i) * (float64(x[i]) - m) * inv
		}
		dgamma[c], dbeta[c] = float32(dot), float32(sum)
		for i := c; i < op.Rows*op.C; i += op.C {
			g, xhat := grad(i), (float64(x[i])-m)*inv
			if op.Residual {
				dres[i] = float32(g)
			}
			dx[i] = float32(float64(gamma[c]) * inv * (g - sum/rows - xhat*dot/rows))
		}
	}
}
