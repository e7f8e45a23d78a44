package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Of the picture.
const (
	columns   = 80
	pictured  = 4  // steps
	maxLanes  = 16 // of workers
	nameWidth = 10
)

// shown is what pictures have shown, which a legend has to explain.
type shown struct {
	glyphs               map[byte]bool
	workers, inline, pin bool // lanes
}

// loaders names the lanes that load.
func (d *shown) loaders() string {
	if !d.workers && !d.pin {
		return "Inline (the step loop itself)"
	}
	text := "Workers (w0, w1, …"
	if d.inline {
		text += "; inline is the step loop itself"
	}
	if d.pin {
		text += "; pin is the thread that page-locks what they made"
	}
	return text + ")"
}

// legends are the lanes whose glyphs are explained, each with the kinds it shows.
var legends = []struct {
	lane  string // empty for those that load
	kinds []trace.Kind
}{
	{"", []trace.Kind{trace.KindRead, trace.KindFirstByte, trace.KindDecode, trace.KindTransform,
		trace.KindFetch, trace.KindCollate, trace.KindPin, trace.KindStart, trace.KindBlocked}},
	{"Host (the step loop)", []trace.Kind{trace.KindNext, trace.KindStarved, trace.KindEnqueue, trace.KindSync, trace.KindRebuild, trace.KindPause}},
	{"H2D", []trace.Kind{trace.KindCopy}},
	{"Script (what the training script does with its batch)", []trace.Kind{trace.KindBackward, trace.KindOptimizer}},
	{"Compute", []trace.Kind{trace.KindCompute}},
}

// legend explains the glyphs that were drawn.
func (d *shown) legend() string {
	entry := func(l []string, glyph byte, says string) []string {
		if d.glyphs[glyph] {
			l = append(l, markup.Code(string(glyph))+" "+says)
		}
		return l
	}
	var text []string
	explain := func(lane string, entries []string) {
		if len(entries) > 0 {
			text = append(text, lane+": "+strings.Join(entries, ", "))
		}
	}
	for _, g := range legends {
		var l []string
		for _, k := range g.kinds {
			l = entry(l, k.Info().Letter, k.Info().Doing)
		}
		explain(cmp.Or(g.lane, d.loaders()), l)
	}
	var l []string
	for c := range trace.Cause(trace.NumCauses) {
		l = entry(l, byte(c.Info().Letter), c.Info().For)
	}
	explain("STALL (what compute waited for)", l)
	return strings.Join(text, ". ")
}

// timeline draws a few steps of a row that are typical of it, and notes what it shows.
func (m *markdown) timeline(row int, drawn *shown) {
	from, to, first, last := m.window(row)
	if to <= from {
		m.para("There is no picture: nothing recorded of these steps is left.")
		return
	}
	lanes := map[trace.TrackID]*lane{}
	var ids []trace.TrackID
	for i := range m.s.Spans {
		s := &m.s.Spans[i]
		g := glyph(s)
		if g == 0 || s.Start >= to || s.End <= from {
			continue
		}
		l := lanes[s.Track]
		if l == nil {
			l = &lane{}
			lanes[s.Track] = l
			ids = append(ids, s.Track)
		}
		l.add(g, max(s.Start, from)-from, min(s.End, to)-from, to-from)
	}
	slices.SortFunc(ids, func(a, b trace.TrackID) int { return laneOrder(a) - laneOrder(b) })
	steps := "Step " + units.Count(first) + ", a typical one"
	if last > first {
		steps = "Steps " + units.Count(first) + " to " + units.Count(last) + ", typical ones"
	}
	m.para("%s, %s in %d columns of %s:", steps, units.Prose.Time(to-from), columns, units.Prose.Time((to-from)/columns))
	m.line("```")
	workers, hidden := 0, 0
	for _, id := range ids {
		if id.IsWorker() {
			if workers++; workers > maxLanes {
				hidden++
				continue
			}
		}
		drawn.inline = drawn.inline || id == trace.TrackInline
		drawn.pin = drawn.pin || id == trace.TrackPin
		drawn.workers = drawn.workers || id.IsWorker() && id != trace.TrackInline
		if hidden > 0 && !id.IsWorker() {
			m.line("… and %s", units.Counted(hidden, "worker more", "workers more"))
			hidden = 0
		}
		cells := lanes[id].String()
		for _, c := range []byte(cells) {
			drawn.glyphs[c] = true
		}
		m.line("%-*s|%s| %6s", nameWidth, id, cells, units.Prose.Percent(float64(lanes[id].active)/float64(to-from)))
	}
	m.line("```")
	m.line("")
}

// window chooses whole steps that were recorded, one after the other, among the row's
// steady ones: those that lose their time most as the row does, and were not paused, which
// is in no share and would fill the picture. Of a long run only the beginning and the end of
// a segment are left.
func (m *markdown) window(row int) (from, to int64, first, last int32) {
	t, nearest := m.tally(row), math.Inf(1)
	var run []trace.Step // the latest
	for _, r := range m.recorded(t.Start, t.End) {
		after, err := m.s.FirstAfter(r.from)
		if err != nil {
			break // the picture is of what can be read
		}
		run = run[:0]
		for s, err := range m.s.Each(max(t.First, after), t.Last+1) {
			if err != nil || s.End > r.to {
				break
			}
			if s.Segment != t.Segment || s.Start < max(r.from, t.From) || s.End <= s.Start || s.Flags&trace.FlagTransition != 0 || s.Stall[trace.CausePaused] > 0 {
				continue
			}
			if n := len(run); n > 0 && run[n-1].End != s.Start {
				run = run[:0]
			}
			if len(run) == pictured {
				run = append(run[:0], run[1:]...)
			}
			run = append(run, *s)
			off := unlike(attribution.Sum(run), m.rows[row].Breakdown) + float64(2*(pictured-len(run))) // whole pictures first
			if off < nearest {
				nearest = off
				from, to, first, last = run[0].Start, s.End, run[0].Index, s.Index
			}
		}
	}
	return from, to, first, last
}

// unlike is how much of the time of one account is spent otherwise than in another, 0 to 2.
func unlike(a, b attribution.Breakdown) float64 {
	off := math.Abs(a.Utilisation() - b.Utilisation())
	for c := range trace.Cause(trace.NumCauses) {
		off += math.Abs(a.Share(c) - b.Share(c))
	}
	return off
}

// taped is a time that was recorded without a hole, in ns.
type taped struct{ from, to int64 }

// recorded are the stretches of [from, to) that the computing and its gaps cover: they
// tile the run, so that where they are missing spans are no longer kept.
func (m *markdown) recorded(from, to int64) (all []taped) {
	for i := range m.s.Spans {
		s := &m.s.Spans[i]
		if s.Kind != trace.KindCompute && s.Kind != trace.KindStall || s.End <= from || s.Start >= to {
			continue
		}
		if n := len(all); n > 0 && s.Start <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, s.End)
			continue
		}
		all = append(all, taped{s.Start, s.End})
	}
	return all
}

// laneOrder is inline, workers, pin, script, step loop, copy, compute, STALL.
func laneOrder(t trace.TrackID) int {
	switch t {
	case trace.TrackInline:
		return 0
	case trace.TrackPin:
		return 998
	case trace.TrackScript:
		return 999
	case trace.TrackStep:
		return 1000
	case trace.TrackCopy:
		return 1001
	case trace.TrackCompute, trace.TrackOps:
		return 1002
	case trace.TrackStall:
		return 1003
	}
	return int(t)
}

func glyph(s *trace.Span) byte {
	if s.Kind == trace.KindStall {
		return byte(s.Cause().Info().Letter)
	}
	return s.Kind.Info().Letter
}

// lane is one row of the picture: in each column, ns by glyph.
type lane struct {
	cols   [columns]map[byte]int64
	active int64 // ns of anything but waiting for work
}

func (l *lane) add(g byte, from, to, width int64) {
	if g != '.' && g != trace.KindStarved.Info().Letter {
		l.active += to - from
	}
	for c := from * columns / width; c < columns && c*width/columns < to; c++ {
		lo, hi := max(from, c*width/columns), min(to, (c+1)*width/columns)
		if hi <= lo {
			continue
		}
		if l.cols[c] == nil {
			l.cols[c] = map[byte]int64{}
		}
		l.cols[c][g] += hi - lo
	}
}

// String shows, in each column, the glyph with the most time; waiting shows only
// where nothing else does.
func (l *lane) String() string {
	var b strings.Builder
	for _, col := range l.cols {
		best, most := byte(' '), int64(0)
		for g, ns := range col {
			if g == '.' {
				ns = 1
			}
			if ns > most || (ns == most && g < best) {
				best, most = g, ns
			}
		}
		fmt.Fprintf(&b, "%c", best)
	}
	return b.String()
}
