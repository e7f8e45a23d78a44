package attribution

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Experiment is an experiment of the run with its result, so far or final.
type Experiment struct {
	trace.Experiment
	Settings [2][]knob.Setting // of A and of B, all knobs; nil where none is known
	Sides    [2]Side           // A, B
	LeftOut  int64             // steps, of transitions
	Change   stats.Comparison  // of B with A
	Spent    int64             // ns of active time, of a tune
	FromA    bool              // A has the baseline's settings
}

// Side is what was measured of one side of an experiment.
type Side struct {
	Steps, Samples int64
	Active, Busy   int64 // ns
}

func (s *Side) add(b *trace.Block) {
	s.Steps += b.Steps
	s.Samples += b.Samples
	s.Active += b.Active
	s.Busy += b.Busy
}

// SamplesPerSecond returns the rate over the active time; 0 when there was none.
func (s *Side) SamplesPerSecond() float64 { return s.share(s.Samples) * 1e9 }

// Utilisation returns the share of the active time, 0 to 1, in which the compute stream was busy.
func (s *Side) Utilisation() float64 { return s.share(s.Busy) }

func (s *Side) share(n int64) float64 {
	if s.Active <= 0 {
		return 0
	}
	return float64(n) / float64(s.Active)
}

// Experiments returns the result of each experiment, in order. rows are Segments of the session.
func Experiments(s *trace.Snapshot, rows []SegmentStats) []Experiment {
	out := experiments(s, history(rows))
	for i := range rows {
		if rows[i].Baseline {
			for k := range out {
				out[k].FromA = len(out[k].Settings[0]) > 0 && slices.Equal(out[k].Settings[0], rows[i].Segment.Knobs)
			}
		}
	}
	return out
}

func experiments(s *trace.Snapshot, h stats.History) []Experiment {
	out := make([]Experiment, len(s.Experiments))
	for i := range s.Experiments {
		x := &out[i]
		x.Experiment = s.Experiments[i]
		x.settings(s)
		switch x.Kind {
		case trace.Ceiling:
			x.interlude(s, h)
		case trace.Tune:
			x.tuning(s)
		default:
			x.pairs()
			x.longer(s.Now)
		}
	}
	return out
}

// longer estimates how much longer an A/B test under way takes to have enough pairs.
func (x *Experiment) longer(now int64) {
	if m := &x.Change.Throughput.Missing; x.Running() && m.What == stats.Pairs && m.Have > 0 {
		m.More = time.Duration(float64(now-x.Start) / m.Have * (m.Want - m.Have))
	}
}

// settings fills in all knobs of A and of B. Trying a knob may change another one that nobody
// set.
func (x *Experiment) settings(s *trace.Snapshot) {
	for i := range s.Segments {
		g := &s.Segments[i]
		switch {
		case g.Index == x.First-1:
			x.Settings[0] = g.Knobs
		case len(x.B) == 0: // nothing was tried yet
		case x.Has(g.Index) && !slices.ContainsFunc(x.B, func(k knob.Setting) bool { return knob.ValueOf(g.Knobs, k.Name) != k.Value }):
			x.Settings[1] = g.Knobs
			return
		}
	}
}

// interlude compares the one segment of a ceiling with the settings before it.
func (x *Experiment) interlude(s *trace.Snapshot, h stats.History) {
	var stretches [2]stats.Stretch
	for i, segment := range [2]int32{x.First - 1, x.First} {
		t := s.Tally(segment)
		if i == 1 && x.Last < x.First {
			break // B never took effect
		}
		x.Sides[i] = Side{t.Steady.Steps, t.Steady.Samples, t.Steady.Active(), t.Steady.Busy}
		x.LeftOut += t.Excluded() * int64(i)
		stretches[i] = StretchOf(t)
	}
	x.Change = stats.Compare(stretches[0], stretches[1], h, stats.DefaultMargin)
}

// pairs compares the two sides of all pairs.
func (x *Experiment) pairs() {
	pairs := make([]stats.Pair, len(x.Pairs))
	for i := range x.Pairs {
		p := &x.Pairs[i]
		x.Sides[0].add(&p.A)
		x.Sides[1].add(&p.B)
		x.LeftOut += p.LeftOut
		pairs[i] = stats.Pair{A: block(&p.A), B: block(&p.B)}
	}
	x.Change = stats.Paired(pairs, stats.DefaultMargin)
}

func block(b *trace.Block) stats.Block {
	return stats.Block{Steps: int(b.Steps), Samples: b.Samples, Active: b.Active, Busy: b.Busy, Squares: b.Squares}
}

// Rates returns the samples a second of A and of B in a typical pair. They are the geometric means over
// the pairs, whose ratio is the ratio of Change. Without pairs they are the rates of all steps.
func (x *Experiment) Rates() (rates [2]float64) {
	if len(x.Pairs) == 0 {
		return [2]float64{x.Sides[0].SamplesPerSecond(), x.Sides[1].SamplesPerSecond()}
	}
	for i := range x.Pairs {
		for side, b := range [2]*trace.Block{&x.Pairs[i].A, &x.Pairs[i].B} {
			rates[side] += math.Log(float64(b.Samples)/float64(b.Active)*1e9) / float64(len(x.Pairs))
		}
	}
	return [2]float64{math.Exp(rates[0]), math.Exp(rates[1])}
}

// Name returns what the experiment's row is called.
func (x *Experiment) Name() string {
	switch x.Kind {
	case trace.Ceiling:
		return "ceiling"
	case trace.Tune:
		return "tune"
	}
	return stats.Turns
}

// Stage returns how far the newest experiment is, in a few words: "A/B test 3 pairs", "ceiling".
func Stage(s *trace.Snapshot) string {
	x := Experiment{Experiment: s.Experiments[len(s.Experiments)-1]}
	x.settings(s)
	switch x.Kind {
	case trace.Ceiling:
		return x.Name()
	case trace.Tune:
		return x.Name() + ": " + x.trying()
	}
	return x.Name() + " " + units.Counted(len(x.Pairs), "pair", "pairs")
}

// Changes says what B changes: "num_workers 2 -> 4".
func (x *Experiment) Changes() string {
	words := make([]string, len(x.B))
	for i, k := range x.B {
		words[i] = fmt.Sprintf("%s %s -> %s", k.Name, knob.ValueOf(x.A, k.Name), k.Value)
	}
	return strings.Join(words, ", ")
}

// Segments says which segments belong to the experiment: "segments #1 to #9".
func (x *Experiment) Segments() string {
	switch {
	case x.Last < x.First:
		return "no segment"
	case x.Last == x.First:
		return fmt.Sprintf("segment #%d", x.First)
	case x.Running():
		return fmt.Sprintf("segments from #%d on", x.First)
	}
	return fmt.Sprintf("segments #%d to #%d", x.First, x.Last)
}

// Text returns the question and the answer, in one sentence.
func (x *Experiment) Text() string {
	var t strings.Builder
	if x.Kind == trace.Tune {
		return x.tuned()
	}
	if x.Kind == trace.Ceiling {
		t.WriteString(AtMost(&x.Change.Throughput))
	} else {
		fmt.Fprintf(&t, "%s: %v", x.Changes(), &x.Change.Throughput)
		if x.Change.Throughput.Missing.What != stats.Pairs {
			fmt.Fprintf(&t, " after %s of %s", units.Counted(len(x.Pairs), "pair", "pairs"), units.Prose.Time(x.pairTime()))
		}
	}
	switch {
	case x.Running():
		t.WriteString(", under way")
	case x.Kind == trace.Ceiling, x.Why == trace.RunEnded:
	case x.Kept:
		t.WriteString("; it stays")
	default:
		t.WriteString("; taken back")
	}
	if x.Why != "" {
		t.WriteString("; " + x.Why)
	}
	return t.String()
}

// pairTime returns how long the steps of a pair took on average, in ns.
func (x *Experiment) pairTime() int64 {
	return (x.Sides[0].Active + x.Sides[1].Active) / int64(len(x.Pairs))
}

// AtMost says how much a loader could gain that never makes the device wait. c is the change of
// throughput from real batches to cached ones.
func AtMost(c *stats.Change) string {
	switch {
	case c.Answer == stats.Unknown && c.Missing.What == stats.Precision && c.Hi > 1:
		return fmt.Sprintf("fixing data buys at most %s, as far as can be told", units.Prose.Gain(units.Rough(c.Hi)))
	case c.Answer == stats.Unknown:
		return fmt.Sprintf("what fixing data buys is not known yet: %v", c.Missing)
	case c.Answer == stats.Same, c.Ratio < 1:
		return fmt.Sprintf("fixing data buys nothing: with cached batches throughput is %v", c)
	}
	return fmt.Sprintf("fixing data buys at most %v", c)
}

// Proof returns the newest experiment with an answer in which exactly these two settings took
// turns; nil where there is none. reversed says that the experiment's A has b's settings.
func Proof(xs []Experiment, a, b []knob.Setting) (x *Experiment, reversed bool) {
	for i := len(xs) - 1; i >= 0; i-- {
		x := &xs[i]
		switch {
		case len(x.Pairs) == 0 || x.Change.Throughput.Answer == stats.Unknown || len(x.Settings[0]) == 0 || len(x.Settings[1]) == 0:
		case slices.Equal(x.Settings[0], a) && slices.Equal(x.Settings[1], b):
			return x, false
		case slices.Equal(x.Settings[0], b) && slices.Equal(x.Settings[1], a):
			return x, true
		}
	}
	return nil, false
}

// Asks returns the question, in one sentence.
func (x *Experiment) Asks() string {
	switch x.Kind {
	case trace.Tune:
		return "which settings of the loader are the fastest? The best of those that are predicted to be faster are tried, and in the end compared with those in force"
	case trace.Ceiling:
		return "what would fixing data buy? Cached batches are served for some seconds, then it goes on as before"
	}
	return "is it faster? " + x.Changes() + " takes turns with the settings in force until that is known"
}
