package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"dev.gpustall/engine/base/errs"
)

// Mode says which steps time their ops one by one.
type Mode uint8

// The values of the knob time_ops.
const (
	Sampled Mode = iota // a step now and then
	Off
	Every
)

var modes = [...]string{Sampled: "sampled", Off: "off", Every: "every"}

func (m Mode) String() string {
	if int(m) >= len(modes) {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return modes[m]
}

// UnmarshalText is the inverse of String. It also reads "on" and "true", which
// --time-ops without a value means.
func (m *Mode) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "on", "true":
		*m = Every
	case "false":
		*m = Off
	default:
		i := slices.Index(modes[:], s)
		if i < 0 {
			return errs.Reason("none of the modes", "choose sampled, every or off")
		}
		*m = Mode(i)
	}
	return nil
}

// A timed step takes longer than others. Events between kernels keep these from
// overlapping, the launches are not replayed as a graph, and the host reads an event for
// each. So one step in samplePeriod is timed, or fewer if the measured cost would exceed
// sampleShare of the steps' time.
const (
	samplePeriod = 32
	sampleMost   = 2048 // the longest period
	sampleShare  = 0.01
	sampleFirst  = 3 // the first timed step of a segment; the next follow at growing distances
	sampleGap    = 8
)

// sampler chooses the steps that are timed.
type sampler struct {
	mode Mode
	left int // steps until the next timed one
	gap  int
	rng  rand.PCG // varies the distances, the same way in every run

	extra [5]float64 // the extra time of the latest timed steps, in steps; a ring
	n     int        // ever entered
}

// begin starts a segment. Its first timed steps come early, so that a short segment has
// some too.
func (s *sampler) begin(mode Mode) {
	s.mode, s.left, s.gap = mode, sampleFirst, sampleGap/2
}

// due reports whether the step about to be launched is to be timed.
func (s *sampler) due() bool {
	switch s.mode {
	case Off:
		return false
	case Every:
		return true
	}
	if s.left--; s.left > 0 {
		return false
	}
	period := s.period()
	s.gap = min(2*s.gap, period)
	if period > samplePeriod {
		s.gap = period
	}
	// The distance varies, so steps on both input slots are timed, and each of the
	// batches whose gradients are accumulated.
	s.left = s.gap + int(s.rng.Uint64()>>61) // 0 to 7 more
	return true
}

// period returns the distance between timed steps that keeps their cost down.
func (s *sampler) period() int {
	if s.n < 3 {
		return samplePeriod
	}
	var sorted [len(s.extra)]float64
	v := sorted[:copy(sorted[:], s.extra[:min(s.n, len(s.extra))])]
	slices.Sort(v)
	return int(max(samplePeriod, min(sampleMost, math.Ceil(v[len(v)/2]/sampleShare))))
}

// learn compares a step with the usual one of its program. compute is its device
// time, host what the step loop spent enqueuing and reading it, in ns.
func (s *sampler) learn(p *Program, timed bool, compute, host int64) {
	c, h := float64(compute), float64(host)
	switch {
	case !timed && p.usual == 0:
		p.usual, p.host = c, h
	case !timed:
		p.usual += (c - p.usual) / 8
		p.host += (h - p.host) / 8
	case !p.timed: // the first makes the events
		p.timed = true
	case p.usual > 0:
		s.extra[s.n%len(s.extra)] = (c - p.usual + h - p.host) / p.usual
		s.n++
	}
}
