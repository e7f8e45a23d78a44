package loader

// Sampler decides the order of an epoch. Cutting the order into batches is the
// loader's, because batch_size can change in the middle of an epoch.
type Sampler struct {
	seed    int64
	samples int
	groups  Grouping // none: samples are apart from one another
	buffer  int      // samples that are mixed at a time, with groups
}

// NewSampler returns the sampler of a data set with so many samples.
func NewSampler(seed int64, samples int) Sampler { return Sampler{seed: seed, samples: samples} }

// Grouped returns the sampler of a data set whose samples lie in groups.
func (s Sampler) Grouped(g Grouping) Sampler {
	s.groups = g
	return s.Mixing(defaultBuffer)
}

// Mixing returns the sampler that mixes so many samples at a time, where they lie in groups.
func (s Sampler) Mixing(buffer int) Sampler {
	s.buffer = buffer
	return s
}

// Order writes the dataset indices of an epoch, in the order of delivery, into
// dst, which it grows when it is too small, and returns it. Shuffled, it is a
// uniform permutation (Fisher-Yates, as Knuth's algorithm 3.4.2P) and a function
// of the seed and the epoch alone; otherwise it is 0, 1, 2, ….
//
// With groups it is what WebDataset's shuffled shards and shuffle buffer make of them: the
// groups in a uniform order, some at a time that take turns, and of the samples that come so,
// which fill a buffer, one by one at random. A buffer that holds them all makes a uniform
// permutation.
func (s Sampler) Order(dst []int32, epoch int, shuffle bool) []int32 {
	if cap(dst) < s.samples {
		dst = make([]int32, s.samples)
	}
	dst = dst[:s.samples]
	for i := range dst {
		dst[i] = int32(i)
	}
	if !shuffle {
		return dst
	}
	rng := NewRNG(s.seed, epoch, -1) // no sample has index -1: independent of their generators
	if len(s.groups.Starts) > 0 && s.buffer < s.samples {
		s.mix(dst, &rng)
		return dst
	}
	permute(dst, &rng)
	return dst
}

func permute(dst []int32, rng *RNG) {
	for i := len(dst) - 1; i > 0; i-- {
		j := rng.IntN(i + 1)
		dst[i], dst[j] = dst[j], dst[i]
	}
}

// mix is the order with groups.
func (s Sampler) mix(dst []int32, rng *RNG) {
	order := make([]int32, len(s.groups.Starts))
	for i := range order {
		order[i] = int32(i)
	}
	permute(order, rng)
	type lane struct{ next, end int }
	lanes := make([]lane, 0, s.groups.Lanes)
	open := func() (l lane) {
		l.next, l.end = s.groups.Bounds(int(order[0]), s.samples)
		order = order[1:]
		return l
	}
	for range min(max(s.groups.Lanes, 1), len(order)) {
		lanes = append(lanes, open())
	}
	for n, i := 0, 0; n < len(dst); i++ {
		l := &lanes[i%len(lanes)]
		if l.next == l.end && len(order) > 0 {
			*l = open()
		}
		if l.next < l.end { // else this lane is done, and others are not
			dst[n] = int32(l.next)
			l.next++
			n++
		}
	}
	buffer := append([]int32(nil), dst[:max(s.buffer, 1)]...)
	for i := len(buffer); i < len(dst); i++ { // what is written was read before
		j := rng.IntN(len(buffer))
		dst[i-len(buffer)], buffer[j] = buffer[j], dst[i]
	}
	permute(buffer, rng)
	copy(dst[len(dst)-len(buffer):], buffer)
}

// epoch is one pass over the data set. Two exist at a time: the one being
// delivered and, with persistent workers, the one after it.
type epoch struct {
	order     []int32
	pos       int   // samples cut so far
	index     int32 // batches cut so far
	pending   int   // batches cut and not yet delivered
	delivered int   // batches
	closed    bool  // every batch has been cut

	shuffle bool // as it was ordered ...
	mixed   int  // ... and mixed
	again   []At // cut before the loader was started, and not delivered: they go first
	before  bool // some of it was delivered before the loader was started
}

func (e *epoch) left() int { return len(e.order) - e.pos }

// cut takes the next batch of the epoch for s and returns the dataset indices it
// stands for. The rest of the epoch is dropped here when it is to be dropped, so
// that it is known at delivery whether another batch follows.
func (e *epoch) cut(s *slot, size int, dropLast bool) []int32 {
	n := e.next(size)
	at := e.pos
	if len(e.again) > 0 {
		at = e.again[0].From
		if e.again[0].From += n; e.again[0].From == e.again[0].To {
			e.again = e.again[1:]
		}
	} else {
		e.pos += n
	}
	s.Index, s.Pos, s.N = e.index, at, n
	e.index++
	e.pending++
	e.finish(size, dropLast)
	return e.order[at : at+n]
}

// next is how many samples the next batch will have.
func (e *epoch) next(size int) int {
	if len(e.again) > 0 {
		return min(size, e.again[0].To-e.again[0].From)
	}
	return min(size, e.left())
}

// finish notes when nothing of the epoch is left to be cut.
func (e *epoch) finish(size int, dropLast bool) {
	e.closed = len(e.again) == 0 && (e.left() == 0 || dropLast && e.left() < size)
}

// RNG is a small deterministic generator (SplitMix64: Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014). It is a value,
// so that seeding one per sample costs nothing.
type RNG struct{ s uint64 }

// NewRNG seeds a generator for one sample of one epoch.
func NewRNG(seed int64, epoch, index int) RNG {
	r := RNG{uint64(seed)}
	r.s = r.Uint64() ^ uint64(epoch)*0x9e3779b97f4a7c15
	r.s = r.Uint64() ^ uint64(index)*0xd1b54a32d192ed03
	return r
}

// Uint64 returns 64 random bits.
func (r *RNG) Uint64() uint64 {
	r.s += 0x9e3779b97f4a7c15
	z := r.s
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// IntN returns a number in [0,n).
func (r *RNG) IntN(n int) int { return int((r.Uint64() >> 32) * uint64(n) >> 32) }

// Float64 returns a number in [0,1).
func (r *RNG) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }
