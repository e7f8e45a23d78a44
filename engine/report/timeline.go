package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/report/plot"
	"dev.gpustall/engine/trace"
)

// The size of the picture.
const (
	columns   = 80
	pictured  = 4  // steps
	maxLanes  = 16 // of workers
	nameWidth = 10
)

// timeline is the section with the timelines of before and after, as pictures made of
// characters.
type timeline struct{ *account }

func (t *timeline) write(d *markup.Document) {
	if !t.measured() {
		return
	}
	d.Heading(2, "The timeline")
	l := &legend{glyphs: map[byte]bool{}}
	if t.last == t.first {
		t.draw(d, t.first, l)
	} else {
		d.Heading(3, "Before: segment A")
		t.draw(d, t.first, l)
		d.Heading(3, "After: segment "+t.rows[t.last].Name())
		t.draw(d, t.last, l)
	}
	if text := l.String(); text != "" {
		d.Key("%s. A column shows what took longest in it, however short; the percentage at the end counts all but waiting for work.", text)
	}
}

// draw draws a few typical steps of a row, and notes in the legend what it has drawn.
func (t *timeline) draw(d *markup.Document, row int, shown *legend) {
	from, to, first, last := t.window(row)
	if to <= from {
		d.Para("There is no picture: nothing recorded of these steps is left.")
		return
	}
	lanes := map[trace.TrackID]*lane{}
	var ids []trace.TrackID
	for i := range t.s.Spans {
		s := &t.s.Spans[i]
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
	caption := steps + ", " + units.Prose.Time(to-from)
	d.Key("%s in %d columns of %s:", caption, columns, units.Prose.Time((to-from)/columns))
	out := &markup.Timeline{Caption: caption + ":", From: 0, To: milli(to - from)}
	bars := t.bars(from, to, out)
	line := func(format string, args ...any) { out.Text = append(out.Text, fmt.Sprintf(format, args...)) }
	workers, hidden := 0, 0
	for _, id := range ids {
		if id.IsWorker() {
			if workers++; workers > maxLanes {
				hidden++
				continue
			}
		}
		cells := lanes[id].String()
		shown.add(id, cells)
		if hidden > 0 && !id.IsWorker() {
			line("… and %s", units.Counted(hidden, "worker more", "workers more"))
			hidden = 0
		}
		active := units.Prose.Percent(float64(lanes[id].active) / float64(to-from))
		line("%-*s|%s| %6s", nameWidth, id, cells, active)
		out.Lanes = append(out.Lanes, markup.Lane{Name: id.String(), Share: active, Bars: bars[id]})
	}
	d.Timeline(out)
}

// most is how many bars a timeline of the page has at most.
const most = 1000

// bars returns what is drawn of each lane, from a while before a window to a while after it, and says in
// out how long that is.
func (t *timeline) bars(from, to int64, out *markup.Timeline) map[trace.TrackID][]markup.Bar {
	around := interval{from, to}
	for _, r := range t.recorded(math.MinInt64, math.MaxInt64) {
		if r.from <= from && to <= r.to {
			around = r
		}
	}
	bars := map[trace.TrackID][]markup.Bar{}
	for _, windows := range []int64{10, 5, 2, 1, 0} {
		lo, hi := max(around.from, from-windows*(to-from)), min(around.to, to+windows*(to-from))
		out.All = [2]float64{milli(lo - from), milli(hi - from)}
		clear(bars)
		n := 0
		for i := range t.s.Spans {
			s := &t.s.Spans[i]
			if g := glyph(s); g == 0 || g == '.' || s.Start >= hi || s.End <= lo {
				continue
			}
			bars[s.Track] = append(bars[s.Track], bar(s, milli(max(s.Start, lo)-from), milli(min(s.End, hi)-from)))
			n++
		}
		if n <= most {
			break
		}
	}
	return bars
}

func milli(ns int64) float64 { return float64(ns) / 1e6 }

// bar returns a span as the page draws it.
func bar(s *trace.Span, from, to float64) markup.Bar {
	b := markup.Bar{From: from, To: to, Colour: plot.Grey, What: s.Kind.Info().Doing}
	cause, known := s.Kind.Cause()
	switch {
	case s.Kind == trace.KindStall:
		cause, known = s.Cause(), true
		b.What = cause.Info().For
	case s.Kind == trace.KindNext, s.Kind == trace.KindPause:
		known = false
	case s.Kind == trace.KindCompute:
		b.Colour = plot.Computing
	case s.Kind == trace.KindCopy:
		cause, known = trace.CauseCopy, true
	case s.Kind == trace.KindBackward:
		b.Colour = plot.SkyBlue
	case s.Kind == trace.KindOptimizer:
		b.Colour = plot.Orange
	}
	if known {
		b.Colour = plot.Cause(cause)
	}
	b.Says = b.What + ", " + units.Prose.Time(s.End-s.Start)
	if s.Batch >= 0 {
		b.Says += ", batch " + units.Count(s.Batch)
	}
	return b
}

// window chooses consecutive whole steps of a row that lose their time in the way most
// like the row's. It chooses among the steady steps whose spans are left, which in a long
// run are the beginning and the end of a segment. Steps with a pause are left out,
// because a pause is in no share and would fill the picture.
func (a *account) window(row int) (from, to int64, first, last int32) {
	t, nearest := a.tally(row), math.Inf(1)
	var run []trace.Step // the latest steps, without a gap between them
	for _, r := range a.recorded(t.Start, t.End) {
		after, err := a.s.FirstAfter(r.from)
		if err != nil {
			break // the picture is of what can be read
		}
		run = run[:0]
		for s, err := range a.s.Each(max(t.First, after), t.Last+1) {
			if err != nil || s.End > r.to {
				break
			}
			transition, paused := s.Flags&trace.FlagTransition != 0, s.Stall[trace.CausePaused] > 0
			if s.Segment != t.Segment || s.Start < max(r.from, t.From) || s.End <= s.Start || transition || paused {
				continue
			}
			if n := len(run); n > 0 && run[n-1].End != s.Start {
				run = run[:0]
			}
			if len(run) == pictured {
				run = append(run[:0], run[1:]...)
			}
			run = append(run, *s)
			// A missing step counts 2, the most that unlike returns, so complete pictures come
			// first.
			off := unlike(attribution.Sum(run), a.rows[row].Breakdown) + float64(2*(pictured-len(run)))
			if off < nearest {
				nearest = off
				from, to, first, last = run[0].Start, s.End, run[0].Index, s.Index
			}
		}
	}
	return from, to, first, last
}

// unlike returns how differently two breakdowns spend their time, from 0 to 2.
func unlike(a, b attribution.Breakdown) float64 {
	off := math.Abs(a.Utilisation() - b.Utilisation())
	for c := range trace.Cause(trace.NumCauses) {
		off += math.Abs(a.Share(c) - b.Share(c))
	}
	return off
}

// interval is a time from one instant to another, in ns.
type interval struct{ from, to int64 }

// recorded returns the parts of [from, to) whose spans are still kept. Spans of computing
// and of stalls together cover the whole run, so a hole between them is a time whose
// spans are gone.
func (a *account) recorded(from, to int64) (all []interval) {
	for i := range a.s.Spans {
		s := &a.s.Spans[i]
		if s.Kind != trace.KindCompute && s.Kind != trace.KindStall || s.End <= from || s.Start >= to {
			continue
		}
		if n := len(all); n > 0 && s.Start <= all[n-1].to {
			all[n-1].to = max(all[n-1].to, s.End)
			continue
		}
		all = append(all, interval{s.Start, s.End})
	}
	return all
}

// laneOrder sorts lanes: inline, workers, pin, script, step loop, copy, compute, STALL.
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

// glyph returns the character that stands for a span; 0 where it is not drawn.
func glyph(s *trace.Span) byte {
	if s.Kind == trace.KindStall {
		return byte(s.Cause().Info().Letter)
	}
	return s.Kind.Info().Letter
}

// lane is one row of the picture.
type lane struct {
	cols   [columns]map[byte]int64 // ns by glyph
	active int64                   // ns of anything but waiting for work
}

// add adds the time from one instant to another, of a picture of that width, to the
// columns that it covers.
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

// String shows in each column the glyph with the most time. It shows waiting only where
// there is nothing else.
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
