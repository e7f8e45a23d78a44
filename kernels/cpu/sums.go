package cpu

// columnSums sets out[c] to the sum over rows of x[row,c], in float64.
func (pl *Plan) columnSums(x []float32, rows, c int, out []float32) func() {
	parts := min(ceil(rows, 1024), 4*pl.pool.threads)
	sums := make([]float64, parts*c)
	add := func(_, i int) {
		lo, hi := split(rows, parts, i)
		s := sums[i*c : (i+1)*c]
		clear(s)
		pl.pool.variant.addColumns(x[lo*c:hi*c], c, s)
	}
	return func() {
		pl.pool.each(parts, add)
		for j := range c {
			var sum float64
			for i := range parts {
				sum += sums[i*c+j]
			}
			out[j] = float32(sum)
		}
	}
}

// addColumns adds the columns of x, rows of c, to sums.
func (v variant) addColumns(x []float32, c int, sums []float64) {
	for ; len(x) > 0; x = x[c:] {
		for j, y := range x[:c] {
			sums[j] += float64(y)
		}
	}
}
