package loader

// Sampler decides the order of an epoch. The loader cuts the order into batches, because
// batch_size can change in the middle of an epoch.
type Sampler struct {
	seed    int64
	samples int
	groups  Grouping // none: samples do not lie in groups
	buffer  int      // samples that are mixed at a time, with groups
}

// NewSampler returns the sampler of a data set with so many samples.
func NewSampler(seed int64, samples int) Sampler { return Sampler{seed: seed, samples: samples} }

// Grouped returns the sampler of a data set whose samples lie in groups.
func (s Sampler) Grouped(g Grouping) Sampler {
	s.groups = g
	return s.Mixing(defaultBuffer)
}

// Mixing returns the sampler that mixes so many samples at a time, if they lie in groups.
func (s Sampler) Mixing(buffer int) Sampler {
	s.buffer = buffer
	return s
}

// Order writes the dataset indices of an epoch, in the order of delivery, into dst and returns
// it. It grows dst if dst is too small. Without shuffle the order is 0, 1, 2, …. With shuffle
// it is a uniform permutation (Fisher-Yates, as Knuth's algorithm 3.4.2P), which depends only
// on the seed and the epoch.
//
// With groups the order is that of WebDataset's shuffled shards and shuffle buffer. The groups
// come in a uniform order, and a few at a time take turns. Their samples fill a buffer, from
// which they leave at random. A buffer that holds all samples makes a uniform permutation.
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
	rng := NewRNG(s.seed, epoch, -1) // no sample has index -1, so this generator is independent of theirs
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

// mix makes the shuffled order with groups.
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
		if l.next < l.end { // else this lane is done, while others go on
			dst[n] = int32(l.next)
			l.next++
			n++
		}
	}
	buffer := append([]int32(nil), dst[:max(s.buffer, 1)]...)
	for i := len(buffer); i < len(dst); i++ { // only places that were read before are written
		j := rng.IntN(len(buffer))
		dst[i-len(buffer)], buffer[j] = buffer[j], dst[i]
	}
	permute(buffer, rng)
	copy(dst[len(dst)-len(buffer):], buffer)
}
