package loader

import "dev.gpustall/engine/base/splitmix"

// RNG is a small deterministic generator. It is a value, so seeding one for each sample costs
// nothing.
type RNG struct{ s splitmix.Source }

// NewRNG seeds a generator for one sample of one epoch.
func NewRNG(seed int64, epoch, index int) RNG {
	r := RNG{splitmix.Source(seed)}
	r.s = splitmix.Source(r.Uint64() ^ uint64(epoch)*0x9e3779b97f4a7c15)
	r.s = splitmix.Source(r.Uint64() ^ uint64(index)*0xd1b54a32d192ed03)
	return r
}

// Uint64 returns 64 random bits.
func (r *RNG) Uint64() uint64 { return r.s.Uint64() }

// IntN returns a number in [0,n).
func (r *RNG) IntN(n int) int { return int((r.Uint64() >> 32) * uint64(n) >> 32) }

// Float64 returns a number in [0,1).
func (r *RNG) Float64() float64 { return r.s.Float64() }
