package cpu

// spanFloats is how many float32s a thread takes at a time in operations that
// memory bounds.
const spanFloats = 64 << 10

// parallel shares things 0..n-1 among the threads in parts ranges.
func (pl *Plan) parallel(parts, n int, work func(lo, hi int)) func() {
	parts = max(min(parts, n), 1)
	item := func(_, i int) { work(split(n, parts, i)) }
	return func() { pl.pool.each(parts, item) }
}

// spans shares n float32s; ranges begin on cache lines of an aligned buffer.
func (pl *Plan) spans(n int, work func(lo, hi int)) func() {
	parts := ceil(n, spanFloats)
	item := func(_, i int) { work(i*spanFloats, min((i+1)*spanFloats, n)) }
	return func() { pl.pool.each(parts, item) }
}

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

func goAddColumns(x []float32, c int, sums []float64) {
	for ; len(x) > 0; x = x[c:] {
		for j, y := range x[:c] {
			sums[j] += float64(y)
		}
	}
}
