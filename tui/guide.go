package tui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/panel"
)

const (
	// guideAfter is how long, in ns, a run must have gone on without a change before the story is
	// offered.
	guideAfter = int64(10e9)

	// guideShare is the least share of time lost to data with which the story goes on.
	guideShare = 0.30

	// guideKnob is what the story injects. It makes workers wait, so it takes no core from a device
	// that computes on the host.
	guideKnob = "inject_read"
)

// chapter is how far the story has come. A chapter ends when the session shows what the chapter
// asks for, as the comments below say ("until").
type chapter uint8

const (
	chapterNone   chapter = iota // not offered, or left
	chapterOffer                 // there is nothing to improve; until the user accepts
	chapterInject                // the injection was asked for; until a segment has it
	chapterFind                  // until the verdict blames the data
	chapterFix                   // until a segment has another setting and the same injection
	chapterProve                 // until that segment is measured as faster
	chapterExport                // until a report is written
	chapterStop                  // until a segment has no injection
	chapterEnd
)

// guide leads a newcomer through a first story when there is no hint for the run. The story
// injects, finds and fixes a bottleneck, proves the gain and exports the report.
type guide struct {
	session  *followed
	requests *requests
	knobs    *panel.Knobs
	strip    *panel.Story // where it says what to do

	plot
}

// plot is how far the story has come, and what it found.
type plot struct {
	chapter chapter
	left    bool           // by the user: it is not offered again
	slow    int32          // the segment to be faster than: baseline A
	fixed   int32          // the segment that should be faster; slow itself at first
	tried   int            // how many injections were asked for
	asked   time.Duration  // the last of them
	found   advice.Verdict // on the segment slow
	so      stats.Change   // what the fix did, so far
	report  string
}

// update reads from the session how far the story has come. The caller calls it after each
// analysis.
func (g *guide) update() {
	if g.session.o.Control == nil || g.session.live == nil || g.session.moment.frozen || len(g.session.live.Segments) == 0 {
		return
	}
	if !g.session.running() && g.chapter != chapterExport && g.chapter != chapterEnd {
		g.chapter = chapterNone
	}
	now := &g.session.live.Segments[len(g.session.live.Segments)-1]
	an := &g.session.analysis
	v := &an.Told.Verdict
	injected := !knob.Off(knob.ValueOf(now.Knobs, guideKnob))
	if g.chapter >= chapterFind && g.chapter < chapterStop && !injected { // the user took it back
		g.chapter = chapterEnd
	}
	slow, fixed := rowOf(an.Segs, g.slow), rowOf(an.Segs, now.Index)
	if (g.chapter == chapterFix || g.chapter == chapterProve) && slow != nil && !sameInjection(&slow.Segment, now) {
		g.chapter = chapterFind // the bottleneck has changed
	}
	switch g.chapter {
	case chapterNone, chapterOffer:
		g.chapter = chapterNone
		if g.offers(now) {
			g.chapter = chapterOffer
		}
	case chapterInject:
		if injected {
			g.chapter, g.slow = chapterFind, now.Index
		}
	case chapterFind:
		g.slow = now.Index
		switch {
		case fixed == nil || an.Win.Tally == nil || an.Win.Tally.Segment != now.Index || v.Class == advice.NotEnoughSteps:
		case v.Group == trace.GroupData && an.Win.Data >= guideShare && fixed.Stretch.Enough():
			g.chapter, g.found, g.fixed = chapterFix, *v, now.Index
			if g.session.o.Baseline != nil { // the table and the report then compare with the same segment
				g.session.o.Baseline(now.Index)
			}
		case an.Win.Data < guideShare && fixed.Stretch.Enough() && g.tried < 4: // the injection was too small
			g.chapter = chapterInject
		}
	case chapterFix:
		if now.Index != g.fixed {
			g.chapter, g.fixed, g.so = chapterProve, now.Index, stats.Change{}
		}
	case chapterProve:
		if slow != nil && fixed != nil && len(advice.Changed(slow.Segment.Knobs, now.Knobs)) > 0 { // a return to the settings of slow is no fix
			g.fixed = now.Index
		}
		if fixed = rowOf(an.Segs, g.fixed); slow == nil || fixed == nil {
			break
		}
		if g.so = fixed.VsA.Throughput; !slow.Baseline {
			g.so = attribution.Compare(an.Segs, slow, fixed).Throughput
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
	g.write(v)
}

// offers reports whether the story can begin: no knob is advised and none was changed yet. A verdict
// that the device shares its cores, as the cpu device does with the loader, is no obstacle, because
// no knob helps against that.
func (g *guide) offers(now *trace.Segment) bool {
	told := &g.session.analysis.Told
	return !g.left && g.session.running() && len(g.session.live.Segments) == 1 && !now.Injects() && g.session.live.Now-now.Start >= guideAfter &&
		(told.Verdict.Class == advice.DeviceBound || told.Verdict.Group == trace.GroupHost) && told.First().Value == "" &&
		g.knobs.Has(guideKnob)
}

// rowOf returns the row of a segment, nil while there is none.
func rowOf(segs []attribution.SegmentStats, index int32) *attribution.SegmentStats {
	i := slices.IndexFunc(segs, func(s attribution.SegmentStats) bool { return s.Segment.Index == index })
	if i < 0 {
		return nil
	}
	return &segs[i]
}

// sameInjection reports whether two segments have the same injections.
func sameInjection(a, b *trace.Segment) bool {
	for _, k := range b.Knobs {
		if k.IsInject() && knob.ValueOf(a.Knobs, k.Name) != k.Value {
			return false
		}
	}
	return true
}

// delay returns by how much each read must become slower so that about two thirds of the time are
// lost to data. Each worker makes a batch alone, and the workers together must take three times as
// long for a batch as the device. That is well above guideShare, because the times from which
// delay is computed vary.
func (g *guide) delay() time.Duration {
	w := &g.session.analysis.Win
	samples := float64(w.Sum.Samples) / float64(w.Steps())
	build := float64(w.Sum.Load) / float64(w.Steps())
	workers, _ := strconv.Atoi(g.knobs.InForce("num_workers"))
	d := (3*float64(workers)*float64(w.Mean) - build) / samples
	if workers == 0 { // the step loop loads the data itself, between the device's steps
		d = 2 * float64(w.Mean) / samples
	}
	d = max(d, 50e3) * math.Pow(2, float64(g.tried))
	return time.Duration(d).Round(10 * time.Microsecond)
}

// key continues the story where that needs the user's decision.
func (g *guide) key() tea.Cmd {
	switch g.chapter {
	case chapterOffer, chapterInject:
		if g.session.analysis.Win.Steps() == 0 {
			return nil
		}
		g.asked = g.delay()
		g.tried++
		g.chapter = chapterInject
		g.write(&g.session.analysis.Told.Verdict)
		return g.requests.apply([]knob.Setting{{Name: guideKnob, Value: knob.Duration(g.asked)}}, true)
	case chapterStop:
		return g.requests.apply([]knob.Setting{{Name: guideKnob, Value: knob.Duration(0)}}, true)
	case chapterNone:
		g.requests.screen.Say("info", "the story is offered when no knob is advised and nothing was changed yet")
	}
	return nil
}

// exported takes the path of a report that was written.
func (g *guide) exported(path string) {
	if g.chapter == chapterExport {
		g.chapter, g.report = chapterStop, path
		if !g.session.running() {
			g.chapter = chapterEnd
		}
		g.write(&g.session.analysis.Told.Verdict)
	}
}

// leave ends the story, and reports whether there was one. An injection stays.
func (g *guide) leave() bool {
	if g.chapter == chapterNone {
		return false
	}
	if v := g.knobs.InForce(guideKnob); g.chapter > chapterOffer && !knob.Off(v) {
		g.requests.screen.Say("info", "the story is left; "+guideKnob+" is still "+v+": u takes changes back")
	}
	g.plot = plot{left: true}
	g.strip.Set(nil)
	return true
}

// write makes the text of the chapter.
func (g *guide) write(v *advice.Verdict) {
	f := g.session.analysis.Told.First()
	var text []string
	say := func(format string, args ...any) { text = append(text, fmt.Sprintf(format, args...)) }
	switch g.chapter {
	case chapterOffer:
		if v.Group == trace.GroupHost {
			say("Loader settings won't help; free CPU cores.")
		} else {
			say("Nothing is wrong here: the device is never kept waiting for long.")
		}
		say("S injects a slow read to practise on; esc hides this.")
	case chapterInject:
		say("%s %s was asked for; what it slows is labelled injected everywhere.", guideKnob, knob.Duration(g.asked))
		say("Until a new row of Experiments has it, nothing is different. S asks again.")
	case chapterFind:
		say("1 of 4, find: %s is in force. The STALL lane has a letter for each cause.", guideKnob)
		say("It is measured first, to compare the fix with it: %s so far.", units.Counted(g.session.analysis.Win.Steps(), "step", "steps"))
	case chapterFix:
		if g.fixed != g.slow {
			say("2 of 4, fix: #%d is no faster than #%d, baseline A.", g.fixed, g.slow)
		} else {
			say("2 of 4, fix: found %s %s, by %s. #%d is baseline A from here.", g.found.Class, units.Prose.Percent(g.found.Share), g.found.Dominant, g.slow)
		}
		switch {
		case len(g.knobs.Changes()) > 0:
			say("%s is staged: 2 and enter apply it.", inWords(g.knobs.Changes()))
		case f.Value != "":
			say("Advised: %s %s. 3 and enter stage it, %s.", f.Knob, f.Value, panel.Pick(f.Tests(), "A then tests it", "enter again applies it"))
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
		switch {
		case !g.so.Missing.OfA():
		case g.session.underWay() == trace.Paired:
			say("%s tells: the settings take turns now.", stats.Turns)
		default:
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
	g.strip.Set(text)
}
