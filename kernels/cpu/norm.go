//go:build cgo

package cpu

import (
	"math"

	"dev.gpustall/kernels"
)

// normParts returns into how many parts the sums over rows are cut. The parts are large enough to
// pay for partial sums, and enough to share evenly.
func (pl *Plan) normParts(rows, c int) int {
	return max(min(ceil(rows*c, spanFloats), 4*pl.pool.threads), 1)
}

// batchNorm normalises x to y. f returns the arguments of op that are not tensors.
func batchNorm[T real](pl *Plan, op kernels.BatchNormForward, x, y, residual []T, f func(int) []float32) func() {
	gamma, beta, runMean, runVar, mean, invstd := f(2), f(3), f(4), f(5), f(6), f(7)
	rows, c, v := op.Rows, op.C, pl.pool.variant
	scale := make([]float32, c)
	if !op.Train {
		mean = runMean
	}
	fl := flags(false, op.ReLU) | streams(rows*c)
	apply := pl.parallel(ceil(rows*c, spanFloats), rows, func(lo, hi int) {
		var res []T
		if op.Residual {
			res = residual[lo*c:]
		}
		normalise(v, hi-lo, c, x[lo*c:], mean, scale, beta, res, y[lo*c:], fl)
	})
	if !op.Train {
		return func() {
			for j := range c {
				scale[j] = float32(float64(gamma[j]) / math.Sqrt(float64(runVar[j])+float64(op.Eps)))
			}
			apply()
		}
	}
	parts := pl.normParts(rows, c)
	means, m2s := make([]float64, parts*c), make([]float64, parts*c)
	measure := func(_, i int) {
		lo, hi := split(rows, parts, i)
		moments(v, x[lo*c:hi*c], c, means[i*c:], m2s[i*c:])
	}
	a := float64(op.Momentum)
	return func() {
		pl.pool.each(parts, measure)
		for j := range c {
			m, variance := join(means[j:], m2s[j:], c, rows, parts)
			inv := 1 / math.Sqrt(variance+float64(op.Eps))
			mean[j], invstd[j] = float32(m), float32(inv)
			scale[j] = float32(inv * float64(gamma[j]))
			runMean[j] = float32((1-a)*float64(runMean[j]) + a*m)
			runVar[j] = float32((1-a)*float64(runVar[j]) + a*variance*float64(rows)/float64(max(rows-1, 1)))
		}
		apply()
	}
}

// join returns the mean and biased variance of a column from those of its parts,
// stride apart.
func join(means, m2s []float64, stride, rows, parts int) (mean, variance float64) {
	count := 0
	for i := range parts {
		lo, hi := split(rows, parts, i)
		n := float64(hi - lo)
		total := float64(count) + n
		d := means[i*stride] - mean
		mean += d * n / total
		variance += m2s[i*stride] + d*d*float64(count)*n/total
		count += hi - lo
	}
	return mean, variance / float64(rows)
}

// batchNormBackward returns the gradient of batch norm as a function to run. f returns the
// arguments of op that are not tensors.
func batchNormBackward[T real](pl *Plan, op kernels.BatchNormBackward, dy, x, y, dx, dres []T, f func(int) []float32) func() {
	gamma, mean, invstd, dgamma, dbeta := f(3), f(4), f(5), f(7), f(8)
	rows, c, v := op.Rows, op.C, pl.pool.variant
	parts := pl.normParts(rows, c)
	sums, dots := make([]float64, parts*c), make([]float64, parts*c)
	scale, offset, slope := make([]float32, c), make([]float32, c), make([]float32, c)
	words := 0 // of a row's bits, one for each element: whether y > 0
	if op.ReLU {
		words = ceil(c, v.panel()/2)
	}
	l := layout{pl: pl}
	bits := l.take(ceil(rows*words, 2))
	mask := func(lo int) ([]T, []uint16) {
		if op.ReLU {
			return y[lo*c:], halves(bytesIn(pl.at(bits)))[lo*words:]
		}
		return nil, nil
	}
	add := func(_, i int) {
		lo, hi := split(rows, parts, i)
		sum, dot := sums[i*c:(i+1)*c], dots[i*c:(i+1)*c]
		clear(sum)
		clear(dot)
		y, bits := mask(lo)
		normSums(v, hi-lo, c, dy[lo*c:], x[lo*c:], y, mean, sum, dot, bits)
	}
	apply := pl.parallel(ceil(rows*c, spanFloats), rows, func(lo, hi int) {
		var res []T
		if op.Residual {
			res = dres[lo*c:]
		}
		_, bits := mask(lo)
		normBack(v, hi-lo, c, dy[lo*c:], x[lo*c:], bits, mean, scale, offset, slope, dx[lo*c:], res, streams(rows*c))
	})
	return func() {
		pl.pool.each(parts, add)
		for j := range c {
			var sum, dot float64
			for i := range parts {
				sum += sums[i*c+j]
				dot += dots[i*c+j]
			}
			inv := float64(invstd[j])
			dgamma[j], dbeta[j] = float32(dot*inv), float32(sum)
			scale[j] = float32(float64(gamma[j]) * inv)
			offset[j] = float32(sum / float64(rows))
			slope[j] = float32(dot * inv * inv / float64(rows))
		}
		apply()
	}
}
