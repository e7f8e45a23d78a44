// Package splitmix is a small deterministic generator of random numbers: SplitMix64 (Steele,
// Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
package splitmix

// Source is a generator. Its value is the seed. Making one costs nothing, so each sample can
// have its own.
type Source uint64

// Uint64 returns 64 random bits.
func (s *Source) Uint64() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Float64 returns a number in [0,1).
func (s *Source) Float64() float64 { return float64(s.Uint64()>>11) / (1 << 53) }
