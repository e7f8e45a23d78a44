package trace

import (
	"iter"
	"math"
)

// Mix says how the time of a span of KindFetch divides by phase; it is the span's Arg. It is taken
// from other batches of the same worker, whose phases were timed one by one. Each phase in mixed
// has a byte with its share, in 255ths; the rest is KindFetch itself. A Mix of 0 says that nothing
// is known.
type Mix uint32

// mixed are the phases that have a byte in a Mix, from the lowest byte on.
var mixed = [...]Kind{KindRead, KindDecode, KindTransform}

// MixOf returns the mix of phases that took so many ns each.
func MixOf(spent *[NumPhases]int64) (m Mix) {
	all := spent[KindFetch-KindRead]
	for _, k := range mixed {
		all += spent[k-KindRead]
	}
	if all <= 0 {
		return 0
	}
	var ns int64
	var before Mix
	for i, k := range mixed {
		ns += spent[k-KindRead]
		upTo := Mix(math.Round(float64(ns) / float64(all) * 255))
		m |= (upTo - before) << (8 * i)
		before = upTo
	}
	return m
}

// Mix returns how the span divides; 0 where all of it is one phase, or none.
func (s *Span) Mix() Mix {
	if s.Kind != KindFetch {
		return 0
	}
	return Mix(s.Arg)
}

// Phases divides ns of the span by phase.
func (s *Span) Phases(ns int64) iter.Seq2[Kind, int64] {
	if m := s.Mix(); m != 0 {
		return m.Divide(ns)
	}
	return func(yield func(Kind, int64) bool) { yield(s.Kind, ns) }
}

// Divide yields each phase with its part of ns, in the order of loading.
func (m Mix) Divide(ns int64) iter.Seq2[Kind, int64] {
	return func(yield func(Kind, int64) bool) {
		var share, done int64
		for i, k := range mixed {
			share = min(255, share+int64(m>>(8*i)&255))
			part := ns*share/255 - done
			if done += part; part > 0 && !yield(k, part) {
				return
			}
		}
		if done < ns {
			yield(KindFetch, ns-done)
		}
	}
}
