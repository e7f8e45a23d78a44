package ptxvm

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// warp is up to 32 threads with their registers.
type warp struct {
	block  *block
	first  int    // its first thread
	all    uint32 // lanes that exist
	live   uint32 // and have not ended
	groups []group
	at     bool // waits at a barrier

	r32     [][32]uint32
	r64     [][32]uint64
	p       []uint32 // predicates, a bit for each lane
	defined []uint32 // by register id, likewise

	undefined uint32 // lanes whose result is not, of the instruction that runs
	copies    [32]copies
	flight    flight // of a program with instructions of warpgroups

	lane  int
	error string
}

// group is the lanes that stand at one instruction.
type group struct {
	pc     int
	lanes  uint32
	parked bool // waits there for others
}

func (w *warp) fail(lane int, format string, args ...any) {
	if w.error == "" {
		w.lane, w.error = lane, fmt.Sprintf(format, args...)
	}
}

// start makes the warp anew for a block.
func (w *warp) start(b *block, p *program, first, threads int) {
	w.block, w.first, w.at, w.error = b, first, false, ""
	w.all = full
	if n := threads - first; n < 32 {
		w.all = 1<<n - 1
	}
	w.live = w.all
	w.groups = append(w.groups[:0], group{0, w.all, false})
	if w.r32 == nil {
		w.r32, w.r64 = make([][32]uint32, p.n32), make([][32]uint64, p.n64)
		w.p, w.defined = make([]uint32, p.nPred), make([]uint32, p.ids)
	}
	clear(w.defined)
	clear(w.copies[:])
	w.flight = flight{}
	if p.async {
		w.flight.stamps, w.flight.flying = make([]int, p.ids), make([]int, p.ids)
	}
	for _, c := range p.constants {
		w.defined[c.id] = full
		if c.class == predicate {
			w.p[c.slot] = uint32(c.value)
			continue
		}
		for l := range 32 {
			w.set(c.register, l, c.value)
		}
	}
	for _, s := range p.specials {
		w.defined[s.id] = full
		for l := range 32 {
			w.r32[s.slot][l] = b.special(s.name, first+l)
		}
	}
}

// knownSpecial reports whether block.special has the special register name.
func knownSpecial(name string) bool {
	switch name {
	case "%laneid", "%warpid":
		return true
	}
	base, axis, ok := strings.Cut(name, ".")
	return ok && len(axis) == 1 && axis[0] >= 'x' && axis[0] <= 'z' &&
		(base == "%tid" || base == "%ctaid" || base == "%ntid" || base == "%nctaid")
}

func (b *block) special(name string, thread int) uint32 {
	l := b.grid.launch
	switch name {
	case "%laneid":
		return uint32(thread % 32)
	case "%warpid":
		return uint32(thread / 32)
	}
	base, axis, _ := strings.Cut(name, ".")
	i := int(axis[0] - 'x')
	switch base {
	case "%tid":
		x, y := l.Block[0], l.Block[1]
		return uint32([3]int{thread % x, thread / x % y, thread / x / y}[i])
	case "%ctaid":
		return uint32(b.at[i])
	case "%ntid":
		return uint32(l.Block[i])
	}
	return uint32(l.Grid[i])
}

// run goes on until all threads have ended or wait at a barrier.
func (w *warp) run() error {
	code, ran := w.block.grid.program.code, w.block.grid.ran
	for w.live != 0 && !w.at {
		i := w.pick()
		if i < 0 {
			return w.stuck()
		}
		for moved := false; !moved; {
			g := &w.groups[i]
			in := &code[g.pc]
			if w.block.grid.budget--; w.block.grid.budget < 0 {
				return w.fault(in, "the launch does not end")
			}
			m := g.lanes
			if in.guard >= 0 {
				v := w.p[in.guard]
				if in.negate {
					v = ^v
				}
				m &= v
			}
			ran[g.pc] = true
			undefined := uint32(0)
			for n, id := range in.reads {
				miss := m &^ w.defined[id]
				guard := n == 0 && in.guard >= 0
				if guard {
					miss = g.lanes &^ w.defined[id]
				}
				if undefined |= miss; miss != 0 && (guard || !in.passes) {
					w.fail(bits.TrailingZeros32(miss), "register operand %d is used, but was never given a value", n)
					return w.fault(in, "")
				}
			}
			switch in.kind {
			case plain:
				if m != 0 {
					w.execute(in, m, undefined)
				}
				g.pc++
				moved = len(w.groups) > 1 && w.merge(i)
			case branch:
				if in.uniform && m != 0 && m != g.lanes {
					w.fail(bits.TrailingZeros32(m), "lanes part at a branch that is said to be uniform")
				}
				moved = w.branch(i, in.target, m)
			case exit:
				w.live &^= m
				g.lanes &^= m
				g.pc++
				moved = g.lanes == 0
				if moved {
					w.groups = append(w.groups[:i], w.groups[i+1:]...)
				}
			default:
				if rest := g.lanes &^ m; rest != 0 { // a guard keeps some away
					g.lanes = m
					w.groups = append(w.groups, group{g.pc + 1, rest, false})
					moved = true
					continue
				}
				moved = w.meet(i, in, m)
			}
			if w.error != "" {
				return w.fault(in, "")
			}
		}
	}
	return nil
}

// execute runs an instruction for the lanes in m; its results are not defined
// where operands are not.
func (w *warp) execute(in *instruction, m, undefined uint32) {
	w.undefined = undefined
	in.run(w, m)
	undefined = w.undefined // selp may have changed it
	for _, id := range in.writes {
		w.defined[id] = (w.defined[id] | m) &^ undefined
	}
	if w.flight.stamps != nil {
		w.flight.clock++
		for _, id := range in.writes {
			w.flight.stamps[id] = w.flight.clock
		}
	}
}

// stuck returns the error of lanes that wait for each other.
func (w *warp) stuck() error {
	p := w.block.grid.program
	in := &p.code[w.groups[0].pc]
	why := "part of the warp waits here, lanes " + hex(w.groups[0].lanes)
	for _, g := range w.groups[1:] {
		why += fmt.Sprintf("; lanes %s at line %d", hex(g.lanes), p.code[g.pc].line)
	}
	if gone := w.all &^ w.live; gone != 0 {
		why += "; lanes " + hex(gone) + " have ended"
	}
	w.lane = -1
	return w.fault(in, why)
}

func hex(m uint32) string { return "0x" + strconv.FormatUint(uint64(m), 16) }

func (w *warp) fault(in *instruction, reason string) error {
	p := w.block.grid.program
	thread := -1
	if reason == "" {
		reason = w.error
		if w.lane >= 0 {
			thread = w.first + w.lane
		}
	}
	text := ""
	if lines := p.fn.module.lines; in.line-1 < len(lines) {
		text = lines[in.line-1]
	}
	return &Fault{Entry: p.fn.name, Line: in.line, Text: text, Block: w.block.at, Thread: thread, Reason: reason}
}
