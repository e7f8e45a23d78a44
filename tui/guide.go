package tui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

const (
	// guideAfter is how long a run must have gone on with nothing changed before the
	// story is offered, in ns.
	guideAfter = int64(10e9)

	// guideShare is the share of time lost to data from which there is something to find.
	guideShare = 0.30

	// guideKnob is what the story injects: time spent waiting, which takes no core away
	// from a device that computes on the host.
	guideKnob = "inject_read"
)

// chapter is how far the story has come. Each ends when the session itself shows that
// what it asks for has happened.
type chapter uint8

const (
	chapterNone   chapter = iota // not offered, or left
	chapterOffer                 // there is nothing to improve
	chapterInject                // the injection was asked for: until a segment has it
	chapterFind                  // until the verdict blames the data
	chapterFix                   // until a segment has another setting, and the injection still
	chapterProve                 // until it is measured as different
	chapterExport                // until a report is written
	chapterStop                  // until a segment has no injection
	chapterEnd
)

// guide leads a newcomer through a first story when the run has nothing to hint: a
// bottleneck is injected, found, fixed, the gain proved and the report exported.
type guide struct {
	chapter chapter
	left    bool  // by the user: it is not offered again
	slow    int32 // the segment to be faster than, baseline A
	fixed   int32 // the segment that is to be faster; slow itself before one is
	tried   int   // injections asked for
	asked   time.Duration
	found   advice.Verdict // on the segment to be faster than
	so      stats.Change   // what the fix did, so far
	report  string
	text    []string // what it says
	lines   []string // that, broken for a screen of width
	width   int      // 0: not broken yet
}

// panel is a strip without a box under the verdict.
func (g *guide) panel() panel {
	return panel{
		name:  "guide",
		place: func(s space) place { return pick(s.guide > 0, place{band: guideBand, rows: s.guide}, place{}) },
		draw: func(v *view, r canvas.Rectangle) {
			for i, line := range g.lines[:min(len(g.lines), r.H)] {
				p := v.c.Pen(r.X+1, r.Y+i, r.W-2)
				if i == 0 {
					p.Text(canvas.Badge, " STORY ").Space(1)
				} else {
					p.Space(guideIndent)
				}
				p.Text(canvas.Bold, line)
			}
		},
	}
}

// guideIndent is the width of the badge before the first line, under which the others
// begin.
const guideIndent = 8

// rows is how many lines it takes of a screen w wide.
func (g *guide) rows(w int) int {
	if g.width != w {
		g.width, g.lines = w, g.lines[:0]
		for _, text := range g.text {
			g.lines = append(g.lines, wrapWords(text, w-2-guideIndent)...)
		}
	}
	return len(g.lines)
}

// update reads from the session how far the story has come. It is called when the
// analysis is new.
func (g *guide) update(m *Model) {
	if m.o.Control == nil || m.live == nil || m.frozen || len(m.live.Segments) == 0 {
		return
	}
	if !m.running() && g.chapter != chapterExport && g.chapter != chapterEnd {
		g.chapter = chapterNone
	}
	now := &m.live.Segments[len(m.live.Segments)-1]
	an := &m.analysis
	v := &an.told.Verdict
	injected := !knob.Off(knob.ValueOf(now.Knobs, guideKnob))
	if g.chapter >= chapterFind && g.chapter < chapterStop && !injected { // undone, or set by hand
		g.chapter = chapterEnd
	}
	slow, fixed := rowOf(an.segs, g.slow), rowOf(an.segs, now.Index)
	if (g.chapter == chapterFix || g.chapter == chapterProve) && slow != nil && !sameInjection(&slow.Segment, now) {
		g.chapter = chapterFind // that is another bottleneck
	}
	switch g.chapter {
	case chapterNone, chapterOffer:
		g.chapter = chapterNone
		if g.offers(m, now) {
			g.chapter = chapterOffer
		}
	case chapterInject:
		if injected {
			g.chapter, g.slow = chapterFind, now.Index
		}
	case chapterFind:
		g.slow = now.Index
		switch {
		case fixed == nil || an.win.tally == nil || an.win.tally.Segment != now.Index || v.Class == advice.NotEnoughSteps:
		case v.Group == trace.GroupData && an.win.data >= guideShare && fixed.Stretch.Enough():
			g.chapter, g.found, g.fixed = chapterFix, *v, now.Index
			if m.o.Baseline != nil { // so that vs A and the report compare with it, as the story does
				m.o.Baseline(now.Index)
			}
		case an.win.data < guideShare && fixed.Stretch.Enough() && g.tried < 4: // less was lost than was worked out
			g.chapter = chapterInject
		}
	case chapterFix:
		if now.Index != g.fixed {
			g.chapter, g.fixed, g.so = chapterProve, now.Index, stats.Change{}
		}
	case chapterProve:
		if slow != nil && fixed != nil && len(advice.Changed(slow.Segment.Knobs, now.Knobs)) > 0 { // not back with those, for a while
			g.fixed = now.Index
		}
		if fixed = rowOf(an.segs, g.fixed); slow == nil || fixed == nil {
			break
		}
		if g.so = fixed.VsA.Throughput; !slow.Baseline {
			g.so = attribution.Compare(an.segs, slow, fixed).Throughput
		}
		switch {
		case g.so.Answer == stats.Different && g.so.Ratio > 1:
			g.chapter = chapterExport
		case g.so.Answer != stats.Unknown:
			g.chapter = chapterFix
		}
	case chapterStop:
		if !injected {
			g.chapter = chapterEnd
		}
	}
	g.write(m, v)
}

// offers reports whether no knob is advised and none was turned yet. A device that has to
// share its cores, as the cpu device does with the loader, is no matter of knobs.
func (g *guide) offers(m *Model, now *trace.Segment) bool {
	told := &m.analysis.told
	return !g.left && m.running() && len(m.live.Segments) == 1 && !now.Injects() && m.live.Now-now.Start >= guideAfter &&
		(told.Verdict.Class == advice.DeviceBound || told.Verdict.Group == trace.GroupHost) && told.First().Value == "" &&
		m.knobs.find(guideKnob) >= 0
}

// rowOf is a segment's, nil while it is not worked out.
func rowOf(segs []attribution.SegmentStats, index int32) *attribution.SegmentStats {
	i := slices.IndexFunc(segs, func(s attribution.SegmentStats) bool { return s.Segment.Index == index })
	if i < 0 {
		return nil
	}
	return &segs[i]
}

// sameInjection reports whether two segments are slowed down alike.
func sameInjection(a, b *trace.Segment) bool {
	for _, k := range b.Knobs {
		if k.IsInject() && knob.ValueOf(a.Knobs, k.Name) != k.Value {
			return false
		}
	}
	return true
}

// delay is what each read must take longer so that about two thirds of the time are lost
// to data, well above guideShare, because the times it is worked out from move: the
// workers, of which each makes a batch alone, are to take three times as long for one as
// the device.
func (g *guide) delay(m *Model) time.Duration {
	w := &m.analysis.win
	samples := float64(w.sum.Samples) / float64(w.steps())
	build := float64(w.sum.Load) / float64(w.steps())
	workers, _ := strconv.Atoi(m.inForce("num_workers"))
	d := (3*float64(workers)*float64(w.mean) - build) / samples
	if workers == 0 { // the step loop loads by itself, between the device's steps
		d = 2 * float64(w.mean) / samples
	}
	d = max(d, 50e3) * math.Pow(2, float64(g.tried))
	return time.Duration(d).Round(10 * time.Microsecond)
}

// key goes on with the story, where that needs a decision.
func (g *guide) key(m *Model) tea.Cmd {
	switch g.chapter {
	case chapterOffer, chapterInject:
		if m.analysis.win.steps() == 0 {
			return nil
		}
		g.asked = g.delay(m)
		g.tried++
		g.chapter = chapterInject
		g.write(m, &m.analysis.told.Verdict)
		return m.apply([]knob.Setting{{Name: guideKnob, Value: knob.Duration(g.asked)}}, true)
	case chapterStop:
		return m.apply([]knob.Setting{{Name: guideKnob, Value: knob.Duration(0)}}, true)
	case chapterNone:
		m.say("info", "the story is offered when no knob is advised and nothing was changed yet")
	}
	return nil
}

// exported is told of a report that was written.
func (g *guide) exported(m *Model, path string) {
	if g.chapter == chapterExport {
		g.chapter, g.report = chapterStop, path
		if !m.running() {
			g.chapter = chapterEnd
		}
		g.write(m, &m.analysis.told.Verdict)
	}
}

// leave ends the story, and reports whether there was one. What is injected stays.
func (g *guide) leave(m *Model) bool {
	if g.chapter == chapterNone {
		return false
	}
	if v := m.inForce(guideKnob); g.chapter > chapterOffer && !knob.Off(v) {
		m.say("info", "the story is left; "+guideKnob+" is still "+v+": u takes changes back")
	}
	*g = guide{left: true}
	return true
}

// write makes the text, two sentences or so for each line.
func (g *guide) write(m *Model, v *advice.Verdict) {
	f := m.analysis.told.First()
	g.text, g.width = g.text[:0], 0
	say := func(format string, args ...any) { g.text = append(g.text, fmt.Sprintf(format, args...)) }
	switch g.chapter {
	case chapterOffer:
		if v.Group == trace.GroupHost {
			say("No knob helps here: what is short is cores.")
		} else {
			say("Nothing is wrong here: the device is never kept waiting for long.")
		}
		say("S injects a slow read to practise on; esc hides this.")
	case chapterInject:
		say("%s %s was asked for; what it slows is labelled injected everywhere.", guideKnob, knob.Duration(g.asked))
		say("Until a new configuration has it, nothing is different. S asks again.")
	case chapterFind:
		say("1 of 4, find: %s is in force. The STALL lane has a letter for each cause.", guideKnob)
		say("It is measured first, to compare the fix with it: %s so far.", units.Counted(m.analysis.win.steps(), "step", "steps"))
	case chapterFix:
		if g.fixed != g.slow {
			say("2 of 4, fix: #%d is no faster than #%d, baseline A.", g.fixed, g.slow)
		} else {
			say("2 of 4, fix: found %s %s, by %s. #%d is baseline A from here.", g.found.Class, units.Prose.Percent(g.found.Share), g.found.Dominant, g.slow)
		}
		switch {
		case len(m.knobs.staged) > 0:
			say("%s is staged: 2 and enter apply it.", staged(m))
		case f.Value != "":
			say("Advised: %s %s. 3 and enter stage it, enter again applies it.", f.Knob, f.Value)
		default:
			say("No knob is advised now: choose one yourself (2), or esc to leave.")
		}
	case chapterProve:
		say("3 of 4, prove: #%d is in force. Is it faster, or was that chance?", g.fixed)
		if g.so == (stats.Change{}) {
			say("Nothing of it is measured yet.")
		} else {
			say("So far, against #%d: %s.", g.slow, &g.so)
		}
		if g.so.Missing.OfA() {
			say("More steps of #%d do not help: u goes back to #%d for a while, or A lets both take turns.", g.fixed, g.slow)
		}
	case chapterExport:
		say("Proved: %s throughput, #%d against #%d.", &g.so, g.fixed, g.slow)
		say("4 of 4, export: e writes the report, with both pictures.")
	case chapterStop:
		say("Exported to %s.", g.report)
		say("S stops injecting. Report and session keep the label injected.")
	case chapterEnd:
		say("The story is over: %s is off. esc hides this.", guideKnob)
		if g.report != "" {
			say("Find, fix, prove, export: next with your own data (--data).")
		}
	}
}

// staged names what is staged.
func staged(m *Model) string {
	var words []string
	for _, k := range m.knobs.changes() {
		words = append(words, k.Name+" "+k.Value)
	}
	return strings.Join(words, ", ")
}
