package stall

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/trace"
)

// The TensorFlow profiler's thresholds (input-pipeline analyzer): under 5 % of the
// step a program is not input-bound, from 20 % it is highly so. The other classes
// begin at the lower one.
const (
	moderate = 0.05
	high     = 0.20

	minSteps = 10 // a verdict on fewer would be on noise
)

// Classes of a verdict.
const (
	NotEnoughSteps       = "not enough steps"
	InputBound           = "input-bound"
	ModeratelyInputBound = "moderately input-bound"
	CopyBound            = "copy-bound"
	LaunchBound          = "launch-bound"
	SyncBound            = "sync-bound"
	DeviceBound          = "device-bound"
	Unexplained          = "unexplained" // most of the idle time has no known cause
)

// States of the ready queue; empty when there is nothing to tell them from.
const (
	QueueCPU    = "CPU-bound loader" // empty, and the workers are computing
	QueueIO     = "I/O-bound loader" // empty, and the workers wait for reads
	QueueDevice = "device-bound"     // full
)

// Verdict says what holds the device up and what to try. It promises nothing: a
// share or a ratio in it was measured.
type Verdict struct {
	Class    string
	Dominant trace.Cause // the largest cause of the class; CauseUnknown where none is named
	Share    float64     // of the active time lost to the class, 0 to 1
	Queue    string
	Steps    int      // it rests on
	Excluded int      // steps left out: transition and warm-up
	Labels   []string // what the reader must know: "injected", "ceiling", "emulated", "synthetic data"
	Text     string   // one line, labels included
	Advice   string   // one sentence
	Knob     string   // the knob that the advice names, and …
	Value    string   // … its value; empty when no knob helps
}

// Judge looks at the last segment in steps, so that it speaks of the knobs in
// force, without its transition and warm-up.
func Judge(s *trace.Snapshot, steps []trace.Step) Verdict {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Segment != steps[len(steps)-1].Segment {
			steps = steps[i+1:]
			break
		}
	}
	steps, excluded := Steady(steps)
	v := Verdict{Dominant: trace.CauseUnknown, Steps: len(steps), Excluded: excluded, Labels: labels(s, steps)}
	if len(steps) < minSteps {
		v.Class = NotEnoughSteps
		v.Text = fmt.Sprintf("not enough steps: %d since the last change, a verdict needs %d%s", len(steps), minSteps, v.suffix())
		return v
	}
	b := Sum(steps)
	v.classify(b)
	c := newContext(s, steps, b)
	v.Queue = c.queue()
	v.describe(b)
	v.advise(c)
	return v
}

// classify picks the group of causes that costs most.
func (v *Verdict) classify(b Breakdown) {
	v.Class, v.Share = DeviceBound, b.Utilisation()
	best := moderate
	for _, g := range []struct {
		class string
		share float64
		cause trace.Cause
	}{
		{ModeratelyInputBound, b.DataShare(), trace.CauseUnknown},
		{CopyBound, b.Share(trace.CauseCopy), trace.CauseCopy},
		{LaunchBound, b.Share(trace.CauseLaunch), trace.CauseLaunch},
		{SyncBound, b.Share(trace.CauseSync), trace.CauseSync},
		{Unexplained, b.Share(trace.CauseUnknown) + b.Share(trace.CauseTransition), trace.CauseUnknown},
	} {
		if g.share >= best {
			best, v.Class, v.Share, v.Dominant = g.share, g.class, g.share, g.cause
		}
	}
	if v.Class == ModeratelyInputBound {
		if v.Share >= high {
			v.Class = InputBound
		}
		v.Dominant = dominantData(b)
	}
}

func dominantData(b Breakdown) trace.Cause {
	best := trace.CauseRead
	for c := trace.CauseRead; c.IsData(); c++ {
		if b.Stall[c] > b.Stall[best] {
			best = c
		}
	}
	return best
}

// describe writes the text.
func (v *Verdict) describe(b Breakdown) {
	var t strings.Builder
	switch v.Class {
	case InputBound, ModeratelyInputBound:
		fmt.Fprintf(&t, "%s: the device waits for data %s of the time, %s for %s (%s)",
			v.Class, percent(v.Share), part(b.Share(v.Dominant)/v.Share), causeWords[v.Dominant], percent(b.Share(v.Dominant)))
	case CopyBound:
		fmt.Fprintf(&t, "copy-bound: the device waits for host-to-device copies %s of the time", percent(v.Share))
	case LaunchBound:
		fmt.Fprintf(&t, "launch-bound: the device is empty %s of the time while its work is enqueued and begun", percent(v.Share))
	case SyncBound:
		fmt.Fprintf(&t, "sync-bound: the device is empty %s of the time while the host waits for results", percent(v.Share))
	case Unexplained:
		fmt.Fprintf(&t, "unexplained: the device is idle %s of the time for no recorded cause", percent(v.Share))
	case DeviceBound:
		fmt.Fprintf(&t, "device-bound: the device computes %s of the time and ", percent(v.Share))
		if b.DataShare() < 0.0005 {
			t.WriteString("does not wait for data")
		} else {
			fmt.Fprintf(&t, "waits for data %s", percent(b.DataShare()))
		}
	}
	switch v.Queue {
	case "":
	case QueueDevice:
		t.WriteString("; the ready queue is full")
	default:
		fmt.Fprintf(&t, "; %s", v.Queue)
	}
	fmt.Fprintf(&t, "; %d steps%s", v.Steps, v.suffix())
	v.Text = t.String()
}

// part is how much of the whole the largest of several parts is.
func part(share float64) string {
	switch {
	case share >= 0.95:
		return "nearly all of it"
	case share > 0.5:
		return "most of it"
	}
	return "the largest part of it"
}

var causeWords = [trace.NumCauses]string{
	trace.CauseRead: "reading", trace.CauseDecode: "decoding", trace.CauseTransform: "transforming",
	trace.CauseCollate: "collating", trace.CausePin: "page-locking", trace.CauseWorkers: "a free worker",
	trace.CausePrefetch: "the prefetch limit", trace.CauseStartup: "workers to start",
}

// suffix is " [injected, emulated]".
func (v *Verdict) suffix() string {
	if len(v.Labels) == 0 {
		return ""
	}
	return " [" + strings.Join(v.Labels, ", ") + "]"
}

func percent(share float64) string {
	if share > 0 && share < 0.0995 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// labels collects what makes the numbers other than a plain run's.
func labels(s *trace.Snapshot, steps []trace.Step) []string {
	var flags uint16
	for i := range steps {
		flags |= steps[i].Flags
	}
	if injecting(s, steps) {
		flags |= trace.FlagInjected
	}
	var l []string
	for _, c := range []struct {
		on   bool
		name string
	}{
		{flags&trace.FlagInjected != 0, "injected"},
		{flags&trace.FlagCeiling != 0, "ceiling"},
		{s.Meta.Emulated || flags&trace.FlagModelled != 0, "emulated"},
		{s.Meta.Synthetic, "synthetic data"},
	} {
		if c.on {
			l = append(l, c.name)
		}
	}
	return l
}

// injecting reports whether a segment of the steps was asked to inject, though it
// may not have reached a step: its batches may lie in the queue, or its worker not
// exist.
func injecting(s *trace.Snapshot, steps []trace.Step) bool {
	if n := len(s.Segments); len(steps) == 0 { // what is in force says what is to come
		return n > 0 && s.Segments[n-1].Injects()
	}
	first, last := steps[0].Segment, steps[len(steps)-1].Segment
	for i := range s.Segments {
		if g := &s.Segments[i]; first <= g.Index && g.Index <= last && g.Injects() {
			return true
		}
	}
	return false
}
