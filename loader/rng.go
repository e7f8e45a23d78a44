package loader

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
