package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Outcome is the result of trying a value of a knob.
type Outcome uint8

// The outcomes.
const (
	Unclear Outcome = iota // there are too few steps, or something else changed as well
	Gain
	Loss
	NoGain // as fast as before, as far as can be told
)

// Trial is a change of a single knob.
type Trial struct {
	Segment        int32 // which the change began
	Knob, From, To string
	Steps          int // steady ones, with the new value
	Outcome        Outcome
	Change         stats.Comparison // of the segment, compared with the last one before it that has enough steps

	terms     string  // the terms under which it was made
	undecided bool    // an A/B test that has ended had enough pairs, and no answer
	others    float64 // how much more of the cores other processes used than before, as a share of all; NaN where not known, 0 of settings that took turns
}

// Toward returns the trial as a change to value, reversed if it was a change from value. An A/B
// test that was taken back left its first value in force.
func (t Trial) Toward(value string) Trial {
	if t.From == value && t.To != value {
		return t.reversed()
	}
	return t
}

// reversed returns the trial as a change from To to From.
func (t Trial) reversed() Trial {
	t.From, t.To, t.Change = t.To, t.From, t.Change.Reversed()
	if t.Outcome != Unclear {
		t.Outcome = outcome(&t.Change)
	}
	return t
}

// Measured returns what the session measured of a knob's change from its value among settings to
// another. It is nil where the session did not measure the change, or not long enough for an
// answer.
func (a *Advice) Measured(settings []knob.Setting, knob, to string) *stats.Change {
	t, ok := measured(a.Tried, settings, knob, to)
	if !ok {
		return nil
	}
	return &t.Change.Throughput
}

// termsOf returns what must be equal for trials to be comparable: the injected bottleneck.
func termsOf(knobs []knob.Setting) string {
	var b strings.Builder
	for _, k := range knobs {
		if k.IsInject() && !knob.Off(k.Value) {
			fmt.Fprintf(&b, "%s=%s ", k.Name, k.Value)
		}
	}
	return b.String()
}

// tried returns the session's changes of a single knob, in order. Advice follows from them in the
// same way live, in a replay and in a report. Settings that took turns in an experiment count as
// tried by it.
func tried(s *trace.Snapshot, rows []attribution.SegmentStats, xs []attribution.Experiment) []Trial {
	out := alternated(s, xs)
	for i := 1; i < len(rows); i++ {
		a, b := before(rows, i), &rows[i]
		name, alone := changedAlone(a.Segment.Knobs, b.Segment.Knobs)
		if !alone || slices.ContainsFunc(out, func(t Trial) bool { // b is in force because an experiment chose it
			return a.Segment.Index < t.Segment && t.Segment < b.Segment.Index && t.Knob == name && t.To == knob.ValueOf(b.Segment.Knobs, name)
		}) {
			continue
		}
		t := Trial{
			Segment: b.Segment.Index, Knob: name, Change: attribution.Compare(rows, a, b),
			From: knob.ValueOf(a.Segment.Knobs, name), To: knob.ValueOf(b.Segment.Knobs, name),
			Steps: b.Steps, terms: termsOf(b.Segment.Knobs), others: Others(s, s.Tally(b.Segment.Index)) - Others(s, s.Tally(a.Segment.Index)),
		}
		if equalTerms(s, a, b) && termsOf(a.Segment.Knobs) == t.terms {
			t.Outcome = outcome(&t.Change)
			if deviceChanged(s, a, b, &t.Change) && !inSpite(&t.Change) {
				t.Outcome = Unclear
			}
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b Trial) int { return cmp.Compare(a.Segment, b.Segment) })
	return out
}

// alternated returns the trials of experiments: of A/B tests of one knob, and of tunes.
func alternated(s *trace.Snapshot, xs []attribution.Experiment) []Trial {
	var out []Trial
	for i := range xs {
		x := &xs[i]
		if x.Kind == trace.Tune {
			out = append(out, tuned(x)...)
		}
		a, b := x.Settings[0], x.Settings[1]
		name, alone := changedAlone(a, b)
		if x.Kind != trace.Paired || !alone || len(a) == 0 {
			continue
		}
		t := Trial{
			Segment: x.First, Knob: name, From: knob.ValueOf(a, name), To: knob.ValueOf(b, name),
			Steps: int(x.Sides[1].Steps), Change: x.Change, terms: termsOf(b),
		}
		if termsOf(a) == t.terms && name != "ceiling" {
			t.Outcome = outcome(&t.Change)
		}
		t.undecided = t.Outcome == Unclear && !x.Running() && t.Change.Throughput.Missing.What == stats.Precision
		out = append(out, t)
	}
	return out
}

// tuned returns the trials of a tune that changed one knob of the best settings so far.
func tuned(x *attribution.Experiment) []Trial {
	var out []Trial
	best := slices.Clone(x.Settings[0])
	for i := range x.Decisions {
		d := &x.Decisions[i]
		if d.Verdict != trace.Best && d.Verdict != trace.Dropped {
			continue
		}
		if len(d.Knobs) == 1 {
			t := Trial{
				Segment: d.Segment, Knob: d.Knobs[0].Name, From: knob.ValueOf(best, d.Knobs[0].Name), To: d.Knobs[0].Value,
				Steps: int(d.After.Steps), Change: stats.Comparison{Margin: stats.DefaultMargin, Throughput: attribution.ChangeOf(d)}, terms: termsOf(best),
			}
			t.Outcome = outcome(&t.Change)
			out = append(out, t)
		}
		for k := range best {
			if v := knob.ValueOf(d.Knobs, best[k].Name); v != "" && d.Verdict == trace.Best {
				best[k].Value = v
			}
		}
	}
	return out
}

// before returns the row that segment i is compared with: the last one before it that has enough
// steps. So a value that was in force only for a moment does not count. Where none has enough
// steps, it is the row just before.
func before(rows []attribution.SegmentStats, i int) *attribution.SegmentStats {
	for j := i - 1; j >= 0; j-- {
		if rows[j].Stretch.Enough() {
			return &rows[j]
		}
	}
	return &rows[i-1]
}

func outcome(c *stats.Comparison) Outcome {
	switch t := &c.Throughput; {
	case t.Answer == stats.Same:
		return NoGain
	case t.Answer == stats.Different && t.Ratio > 1:
		return Gain
	case t.Answer == stats.Different:
		return Loss
	}
	return Unclear
}

// inSpite reports whether the throughput and the device's own time for a sample both rose or both
// fell. Then the device is not the reason: a slower device lowers the throughput, and a faster one
// raises it.
func inSpite(c *stats.Comparison) bool {
	return (c.Throughput.Ratio > 1) == (c.Busy.Ratio > 1)
}

// equalTerms reports whether two segments can be compared. Both must have real batches, and both or
// neither an injected bottleneck. A watched script must have changed nothing by itself between
// them, because it may have gone on to other data.
func equalTerms(s *trace.Snapshot, a, b *attribution.SegmentStats) bool {
	from, to := min(a.Segment.Index, b.Segment.Index), max(a.Segment.Index, b.Segment.Index)
	for i := range s.Segments {
		if g := &s.Segments[i]; g.ByScript && g.Index > from && g.Index <= to {
			return false
		}
	}
	fa, fb := s.Tally(a.Segment.Index).Flags, s.Tally(b.Segment.Index).Flags
	return (fa|fb)&trace.FlagCeiling == 0 && (fa^fb)&trace.FlagInjected == 0
}

// deviceChanged reports whether the device's own time for a sample changed although no knob changed
// its work. Then the device or the host changed, and no knob of the loader gets the credit. The cpu
// device shares its cores with the loader, so there only the use by other processes shows a change. A
// change that leaves the answer about throughput as it is does not matter.
func deviceChanged(s *trace.Snapshot, a, b *attribution.SegmentStats, c *stats.Comparison) bool {
	if c.Busy.Answer != stats.Different || s.Meta.DeviceKind == "cpu" && othersSteady(s, a, b) {
		return false
	}
	if t := &c.Throughput; t.Answer == stats.Different && (t.Ratio > 1 && t.Lo*c.Busy.Ratio > 1+c.Margin || t.Ratio < 1 && t.Hi*c.Busy.Ratio*(1+c.Margin) < 1) {
		return false
	}
	return SameWork(s.Meta.Specs, a.Segment.Knobs, b.Segment.Knobs)
}

// SteadyOthers is how much the share of the cores that others use may differ between two
// compared measurements.
const SteadyOthers = 0.10

// Others returns the share of all cores that other processes used during some steps; NaN where
// that is not known.
func Others(s *trace.Snapshot, t *trace.Tally) float64 {
	percent, _, n := s.GaugeOver(trace.GaugeCPUOthers, t.From, t.To)
	if n == 0 {
		return math.NaN()
	}
	return percent / 100
}

// othersSteady reports whether other processes are known to have used about as much of the cores in
// both segments.
func othersSteady(s *trace.Snapshot, a, b *attribution.SegmentStats) bool {
	return math.Abs(Others(s, s.Tally(b.Segment.Index))-Others(s, s.Tally(a.Segment.Index))) <= SteadyOthers // NaN is not steady
}

// SameWork reports whether the device computes the same for a sample with both settings.
func SameWork(specs []knob.Spec, a, b []knob.Setting) bool {
	return !slices.ContainsFunc(Changed(a, b), func(k knob.Setting) bool { return changesDevice(specs, k.Name) })
}

// changesDevice reports whether a knob changes what the device computes for a sample.
func changesDevice(specs []knob.Spec, name string) bool {
	switch name {
	case "batch_size", "device_transforms", "ceiling":
		return true
	}
	s := knob.SpecOf(specs, name)
	return s != nil && s.Group == knob.GroupEngine
}

// Chosen returns the knobs of b that were chosen to differ from a's. prefetch_factor means nothing
// without workers, and appears and disappears with them.
func Chosen(a, b []knob.Setting) []knob.Setting {
	inline := (knob.ValueOf(a, "num_workers") == "0") != (knob.ValueOf(b, "num_workers") == "0")
	return slices.DeleteFunc(Changed(a, b), func(k knob.Setting) bool { return inline && k.Name == "prefetch_factor" })
}

// changedAlone names the only knob that differs between two settings; false where several do.
func changedAlone(a, b []knob.Setting) (name string, alone bool) {
	if c := Chosen(a, b); len(c) == 1 {
		return c[0].Name, true
	}
	return "", false
}

// failed reports whether a trial showed no gain although it had the steps for a first look. A
// trial that is not clear yet has failed if it does not even seem to help.
func (t *Trial) failed() bool {
	switch t.Outcome {
	case Gain:
		return false
	case Unclear:
		ratio := t.Change.Throughput.Ratio // 0 of an A/B test that was broken off before it told anything
		return t.Steps >= MinSteps && ratio > 0 && ratio < 1+moderate
	}
	return true
}

// slower reports whether a trial looks slower, although it may not be clear.
func (t *Trial) slower() bool { return t.Change.Throughput.Ratio > 0 && t.Change.Throughput.Ratio < 1 }

// meanwhile says by how much the cores that other processes used changed with a trial. It is empty where that is little.
func (t *Trial) meanwhile() string {
	if !(math.Abs(t.others) > SteadyOthers) { // NaN is not known
		return ""
	}
	word := "more"
	if t.others < 0 {
		word = "less"
	}
	return fmt.Sprintf("while other processes used %s %s of the cores than before", units.Prose.Percent(math.Abs(t.others)), word)
}

// ahead reports whether a trial that failed speaks against going from the value now in force to another: that one is beyond what
// was tried from this side, or on the way to what made no difference.
func (t *Trial) ahead(now, value string) bool {
	up, ahead := between(t.From, t.To), between(now, value)
	if up == 0 || ahead == 0 || (up > 0) != (ahead > 0) {
		return false
	}
	onTheWay := (between(now, t.To) > 0) == (ahead > 0) && t.To != now // the tried value lies ahead too
	if t.Outcome == Loss {
		return onTheWay && beyond(now, t.To, value)
	}
	return onTheWay || t.To == now
}

// notApplied returns the notes on changes that the engine could not make.
func notApplied(s *trace.Snapshot) []string {
	var out []string
	for i := range s.Notes {
		if strings.Contains(s.Notes[i].Text, trace.NotApplied) {
			out = append(out, s.Notes[i].Text)
		}
	}
	return out
}

// between returns the distance from one number to another; 0 when either is not a number.
func between(from, to string) int {
	a, err1 := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if err1 != nil || err2 != nil {
		return 0
	}
	return b - a
}

// beyond reports whether value is a number on the same side of now as to, and further away.
func beyond(now, to, value string) bool {
	d, e := between(now, to), between(to, value)
	return d > 0 && e > 0 || d < 0 && e < 0
}
