package advice

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Scope is what a label is a property of.
type Scope uint8

// The scopes.
const (
	OfRun      Scope = iota // the whole session
	OfSegments              // some of its segments
	OfSteps                 // some of its steps
)

// Label tells what a reader must know of numbers that are not from a plain run.
type Label struct {
	Key      string // its name in JSON
	Badge    string // at the top of the screen; it is the key in capitals
	Short    string // the badge where there is little room
	Alarm    bool   // the numbers are wrong or mean little, rather than special
	Words    string // in brackets, behind a verdict
	Sentence string // among a report's caveats; it begins in lower case and has no full stop
	Scope    Scope
	Segments []int32 // with OfSegments: which
}

// label is how a label is found.
type label struct {
	key, short, words string
	alarm             bool
	scope             Scope
	holds             func(*trace.Snapshot) bool               // of a run or of some steps ...
	touches           func(*trace.Snapshot, *trace.Tally) bool // ... and whether some of those are in this segment
	asked             func(*trace.Segment) bool                // of segments: by their knobs ...
	flag              uint16                                   // ... or by their steps
	steps             func(*attribution.EpochStats) int        // of how many steps of an epoch the label holds; nil: of all or none
	sentence          func(*trace.Snapshot) string
}

// labels are all labels, in the order in which they are listed.
var labels = []label{
	{key: "emulated", short: "EMU", words: "emulated",
		holds: func(s *trace.Snapshot) bool { return s.Meta.Emulated || s.Flags&trace.FlagModelled != 0 },
		sentence: func(s *trace.Snapshot) string {
			if s.Meta.DeviceKind == "cuda" {
				return "the training was real, on the host behind an emulated driver; its times are no measurement of a GPU"
			}
			return "the loader was real, the device's times come from a model of it; they are no measurement of that device, and nothing was learnt"
		}},
	{key: "synthetic", short: "SYN", words: "synthetic data",
		holds: func(s *trace.Snapshot) bool { return s.Meta.Synthetic },
		sentence: func(*trace.Snapshot) string {
			return "gpustall made it; how fast it is read and what accuracy is reached say nothing about real data"
		}},
	{key: "injected", short: "INJ", words: "injected", alarm: true, scope: OfSegments,
		asked: (*trace.Segment).Injects, flag: trace.FlagInjected,
		steps: func(e *attribution.EpochStats) int { return e.Injected },
		sentence: func(*trace.Snapshot) string {
			return "a slowness was added on purpose, which says nothing about the machine"
		}},
	{key: "ceiling", short: "CEIL", words: "ceiling", scope: OfSegments,
		asked: func(g *trace.Segment) bool { return knob.On(knob.ValueOf(g.Knobs, "ceiling")) }, flag: trace.FlagCeiling,
		steps: func(e *attribution.EpochStats) int { return e.Ceiling },
		sentence: func(*trace.Snapshot) string {
			return "the same few cached batches were served, so that data cost nothing and little was learnt"
		}},
	{key: "diverged", short: "DIV", words: "diverged", alarm: true, scope: OfSteps,
		steps:   func(e *attribution.EpochStats) int { return e.Diverged },
		holds:   func(s *trace.Snapshot) bool { return s.Diverged > 0 },
		touches: func(s *trace.Snapshot, t *trace.Tally) bool { return s.DivergedAt <= t.Last },
		sentence: func(s *trace.Snapshot) string {
			return fmt.Sprintf("the loss is not a number in %s of %s, first in step %s; the times were measured all the same, and nothing was learnt",
				units.Count(s.Diverged), units.Counted(s.Total.Steps, "step", "steps"), units.Count(s.DivergedAt))
		}},
	{key: "skipped", short: "SKIP", words: "samples skipped", alarm: true,
		holds: func(s *trace.Snapshot) bool { return s.Skipped() > 0 },
		sentence: func(s *trace.Snapshot) string {
			return fmt.Sprintf("%s by on_error=skip, beside %s that the device got",
				units.Counted(s.Skipped(), "sample could not be loaded and was left out of its batch", "samples could not be loaded and were left out of their batches"), units.Count(s.Total.Samples))
		}},
	{key: "batches", short: "BAT", words: "a batch counted as one sample",
		holds: func(s *trace.Snapshot) bool { return knob.ValueOf(s.Meta.Host, trace.SampleIs) != "" },
		sentence: func(s *trace.Snapshot) string {
			if knob.ValueOf(s.Meta.Host, trace.SampleIs) == trace.SampleIsStep {
				return "the loop takes no batches from a DataLoader, so that nothing tells how many samples a step has: what is said of a sample is of one step"
			}
			return "the DataLoader has batch_size=None, so that nothing tells how many samples there are in what the data set yields: what is said of a sample is of one batch of it"
		}},
	{key: "approximate", short: "APX", words: "lines approximate",
		holds: func(s *trace.Snapshot) bool {
			return slices.ContainsFunc(s.Lines, func(l trace.Line) bool { return l.Approximate })
		},
		sentence: func(*trace.Snapshot) string {
			return "a thread in the training looked for lines of code, which sees where others let go of Python's lock (GIL): it may find a line nearby, and much of the time in which the lock is held has no line"
		}},
	{key: "imported", short: "IMP", words: "imported",
		holds: func(s *trace.Snapshot) bool { return s.Meta.Imported != "" },
		sentence: func(s *trace.Snapshot) string {
			return "gpustall did not run this training; it accounts for what the trace holds: " + s.Meta.Imported
		}},
	{key: "incomplete", short: "INC", words: "incomplete file", alarm: true, scope: OfSteps,
		holds: func(s *trace.Snapshot) bool { return s.Outcome.Unsaved.Any() },
		touches: func(s *trace.Snapshot, t *trace.Tally) bool {
			return s.Outcome.Unsaved.From < t.End && t.Start < s.Outcome.Unsaved.To
		},
		sentence: func(s *trace.Snapshot) string {
			u := s.Outcome.Unsaved
			return fmt.Sprintf("%s of the time from %s to %s after the start could not be written to the session's file",
				Lost(u.Steps, u.Spans), units.Prose.Time(u.From), units.Prose.Time(u.To))
		}},
	{key: "damaged", short: "DMG", words: "damaged file", alarm: true,
		holds: func(s *trace.Snapshot) bool { return len(s.Damage) > 0 },
		sentence: func(s *trace.Snapshot) string {
			return strings.Join(s.Damage, "; ")
		}},
}

// Lost counts what a session's file lacks.
func Lost(steps, spans int64) string {
	var what []string
	if steps > 0 {
		what = append(what, units.Counted(steps, "step", "steps"))
	}
	if spans > 0 {
		what = append(what, units.Counted(spans, "span", "spans"))
	}
	return strings.Join(what, " and ")
}

// Dropped says how many spans of a session were lost because nobody read them in time, and what that makes
// uncertain. It is empty where none was lost.
func Dropped(s *trace.Snapshot) string {
	spans := s.Outcome.Dropped()
	if spans == 0 {
		return ""
	}
	n := units.Counted(spans, "span", "spans")
	switch t := &s.Total; {
	case t.Lost > 0:
		return fmt.Sprintf("%s: all %s steps are counted; shares and step times are those of the other %s", n, units.Count(t.Steps), units.Count(t.Steps-t.Lost))
	case s.Last.Through > 0:
		return n + ": all steps are counted; the shares of those near the lost spans may be off"
	}
	return n + ": the shares and times of the steps near them may be off"
}

// Labels returns the labels of a session or, where t is not nil, of the steady steps of one of its
// segments. A segment is labelled with what its knobs ask for even before that reaches a step,
// because its batches may still lie in the queue.
func Labels(s *trace.Snapshot, t *trace.Tally) []Label {
	var out []Label
	for i := range labels {
		l := &labels[i]
		var in []int32
		holds := false
		if l.scope == OfSegments {
			in, holds = l.segments(s, t)
		} else {
			holds = l.holds(s) && (t == nil || l.touches == nil || l.touches(s, t))
		}
		if holds {
			out = append(out, Label{l.key, strings.ToUpper(l.key), l.short, l.alarm, l.words, l.sentence(s), l.scope, in})
		}
	}
	return out
}

// segments returns the segments that have the label: of all segments or, where t is not
// nil, of that one.
func (l *label) segments(s *trace.Snapshot, t *trace.Tally) (in []int32, holds bool) {
	if t != nil {
		g := segmentOf(s, t)
		holds = t.SteadyFlags&l.flag != 0 || g != nil && l.asked(g)
		return []int32{t.Segment}, holds
	}
	for i := range s.Segments {
		if g := &s.Segments[i]; l.asked(g) || s.Tally(g.Index).Flags&l.flag != 0 {
			in = append(in, g.Index)
		}
	}
	return in, len(in) > 0 || s.Flags&l.flag != 0
}

// segmentOf returns the segment of t. Before its first step it is the segment in force, whose
// knobs say what is to come. It is nil where there is no segment.
func segmentOf(s *trace.Snapshot, t *trace.Tally) *trace.Segment {
	n := len(s.Segments)
	if t.All.Steps == 0 && n > 0 {
		return &s.Segments[n-1]
	}
	return s.Segment(t.Segment)
}

// OfEpoch returns the words of the labels of an epoch's steps, with how many steps have them:
// "injected in 2 of 10 steps".
func OfEpoch(e *attribution.EpochStats) string {
	var words []string
	for i := range labels {
		l := &labels[i]
		if l.steps == nil {
			continue
		}
		switch n := l.steps(e); n {
		case 0:
		case e.Steps:
			words = append(words, l.words)
		default:
			words = append(words, fmt.Sprintf("%s in %s of %s", l.words, units.Count(n), units.Counted(e.Steps, "step", "steps")))
		}
	}
	return strings.Join(words, ", ")
}

// Words joins the labels' words by commas.
func Words(labels []Label) string {
	words := make([]string, len(labels))
	for i := range labels {
		words[i] = labels[i].Words
	}
	return strings.Join(words, ", ")
}

// Brackets returns the words as they stand behind a verdict, " [emulated, injected]"; empty without
// labels.
func Brackets(labels []Label) string {
	if len(labels) == 0 {
		return ""
	}
	return " [" + Words(labels) + "]"
}

// Keys returns the labels' names in JSON.
func Keys(labels []Label) []string {
	var keys []string
	for i := range labels {
		keys = append(keys, labels[i].Key)
	}
	return keys
}
