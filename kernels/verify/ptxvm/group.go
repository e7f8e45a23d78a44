package ptxvm

import "math/bits"

// How the lanes of a warp part and meet.

// pick returns the group that is furthest behind, of those that can go on.
func (w *warp) pick() int {
	best := -1
	for i, g := range w.groups {
		if !g.parked && (best < 0 || g.pc < w.groups[best].pc) {
			best = i
		}
	}
	return best
}

// merge joins group i with one that stands where it has come to.
func (w *warp) merge(i int) bool {
	for j := range w.groups {
		if j != i && w.groups[j].pc == w.groups[i].pc {
			w.groups[j].lanes |= w.groups[i].lanes
			w.groups[j].parked = false
			w.groups = append(w.groups[:i], w.groups[i+1:]...)
			return true
		}
	}
	return false
}

// branch moves the lanes in m to target and the others to the next instruction. It reports whether the
// scheduler has anything to decide.
func (w *warp) branch(i, target int, m uint32) bool {
	g := &w.groups[i]
	switch rest := g.lanes &^ m; {
	case m == 0:
		g.pc++
	case rest == 0:
		g.pc = target
	default:
		pc := g.pc + 1
		g.pc, g.lanes = target, m
		w.groups = append(w.groups, group{pc, rest, false})
		w.merge(len(w.groups) - 1)
		w.merge(i)
		return true
	}
	if len(w.groups) == 1 {
		return false
	}
	w.merge(i)
	return true
}

// meet runs an instruction for several lanes once all have come.
func (w *warp) meet(i int, in *instruction, m uint32) bool {
	g := &w.groups[i]
	need := w.live
	if in.kind == members {
		mask := uint32(0)
		for l := range 32 {
			if m>>l&1 == 0 {
				continue
			}
			v := w.r32[in.mask.slot][l]
			if mask != 0 && v != mask {
				w.fail(l, "lanes name different members, %#x and %#x", mask, v)
				return true
			}
			mask = v
		}
		if m&^mask != 0 {
			w.fail(bits.TrailingZeros32(m&^mask), "a lane that is not among the members, %#x", mask)
			return true
		}
		need &= mask
	}
	if in.kind == together && w.live != full {
		w.fail(bits.TrailingZeros32(^w.live), "a warp's instruction, but a lane has ended")
		return true
	}
	if m != need {
		g.parked = true
		return true
	}
	if in.kind == barrier {
		w.at = true
		g.pc++
		return true
	}
	w.execute(in, m, 0)
	g.pc++
	return len(w.groups) > 1 && w.merge(i)
}
