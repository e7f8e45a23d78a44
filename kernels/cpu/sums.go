package cpu

// spanFloats is how many float32s a thread takes at a time in operations that are bound by
// memory.
const spanFloats = 64 << 10

// parallel returns a step that cuts 0..n-1 into that many ranges and shares them among the threads.
func (pl *Plan) parallel(parts, n int, work func(lo, hi int)) func() {
	parts = max(min(parts, n), 1)
	item := func(_, i int) { work(split(n, parts, i)) }
	return func() { pl.pool.each(parts, item) }
}

// spans returns a step that shares n float32s. Ranges begin on cache lines of an aligned buffer.
func (pl *Plan) spans(n int, work func(lo, hi int)) func() {
	parts := ceil(n, spanFloats)
	item := func(_, i int) { work(i*spanFloats, min((i+1)*spanFloats, n)) }
	return func() { pl.pool.each(parts, item) }
}

// biasSums collects the gradient of a bias, the column sums of dy, in float64. It adds rows that
// another product has just brought into the cache. A nil biasSums does nothing.
type biasSums struct {
	pl   *Plan
	k    int
	sums []float64 // [slots, k]; a slot has one writer at a time
	out  []float32
}

// newBiasSums returns nil when there is no bias.
func newBiasSums(pl *Plan, slots, k int, dbias []float32) *biasSums {
	if dbias == nil {
		return nil
	}
	return &biasSums{pl: pl, k: k, sums: make([]float64, slots*k), out: dbias}
}

func (b *biasSums) reset() {
	if b != nil {
		clear(b.sums)
	}
}

// slot returns the sums of one writer.
func (b *biasSums) slot(i int) []float64 { return b.sums[i*b.k : (i+1)*b.k] }

// add adds the columns of rows.
func (b *biasSums) add(slot int, rows []float32) {
	if b != nil {
		addColumns(b.pl.pool.variant, rows, b.k, b.slot(slot))
	}
}

func (b *biasSums) finish() {
	if b == nil {
		return
	}
	for j := range b.k {
		var sum float64
		for i := j; i < len(b.sums); i += b.k {
			sum += b.sums[i]
		}
		b.out[j] = float32(sum)
	}
}

// columnSums returns a step that computes the column sums of x alone.
func (pl *Plan) columnSums(x []float32, rows, c int, out []float32) func() {
	parts := min(ceil(rows, 1024), 4*pl.pool.threads)
	sums := newBiasSums(pl, parts, c, out)
	add := func(_, i int) {
		lo, hi := split(rows, parts, i)
		sums.add(i, x[lo*c:hi*c])
	}
	return func() {
		sums.reset()
		pl.pool.each(parts, add)
		sums.finish()
	}
}

func goAddColumns(x []float32, c int, sums []float64) {
	for ; len(x) > 0; x = x[c:] {
		for j, y := range x[:c] {
			sums[j] += float64(y)
		}
	}
}
