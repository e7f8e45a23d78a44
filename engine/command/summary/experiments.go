package summary

import (
	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
)

// experimentSummary is an experiment of the run and its result.
type experimentSummary struct {
	Kind         string            `json:"kind"`
	FirstSegment int32             `json:"first_segment"`
	Segments     int32             `json:"segments"`
	Start        number            `json:"start_s"`
	End          number            `json:"end_s"` // null while it runs
	A            map[string]string `json:"a"`     // the knobs that differ, as they were before
	B            map[string]string `json:"b"`     // and in the try
	SideA        sideSummary       `json:"side_a"`
	SideB        sideSummary       `json:"side_b"`
	Pairs        int               `json:"pairs"`
	LeftOut      int64             `json:"steps_left_out"` // of transitions
	Change       Change            `json:"throughput"`     // of B against A
	Kept         bool              `json:"kept"`           // B stayed
	Why          string            `json:"why,omitempty"`  // why it ended without an answer
	Text         string            `json:"text"`

	Decisions  []Decision `json:"decisions,omitempty"`   // of a tune
	Flags      string     `json:"flags,omitempty"`       // of a tune: the flags to add to the run's to keep the result
	DataLoader string     `json:"data_loader,omitempty"` // of a tune: the result as arguments of PyTorch's DataLoader
}

type sideSummary struct {
	Steps             int64  `json:"steps"`
	SamplesPerSecond  number `json:"samples_per_s"`
	DeviceUtilization number `json:"device_utilization"`
}

// Change is a ratio with its time-uniform 95 % confidence interval.
type Change struct {
	Answer  stats.Answer `json:"answer"`
	Ratio   number       `json:"ratio"` // null if it is not known
	Lo      number       `json:"lo"`    // null if the interval says nothing, as hi is
	Hi      number       `json:"hi"`
	Missing string       `json:"missing,omitempty"` // what is missing for an answer
}

// ChangeOf returns a change as JSON.
func ChangeOf(c *stats.Change) Change {
	out := Change{Answer: c.Answer, Ratio: none, Lo: none, Hi: none, Missing: c.Missing.String()}
	if e := c.Estimate(); c.Ratio > 0 {
		out.Ratio = number(e.Value)
		if !c.Missing.Hopeless() {
			out.Lo, out.Hi = number(e.Lo), number(e.Hi)
		}
	}
	return out
}

func summariseSide(x *attribution.Experiment, side int) sideSummary {
	s := &x.Sides[side]
	if s.Steps == 0 { // not measured, rather than 0
		return sideSummary{0, none, none}
	}
	return sideSummary{s.Steps, number(x.Rates()[side]), number(s.Utilisation())}
}

// experimented holds what the experiments of the run found.
type experimented struct {
	CeilingGain *Change             `json:"ceiling_gain,omitempty"` // throughput that fixing data buys at most, as a ratio
	Experiments []experimentSummary `json:"experiments,omitempty"`
}

func experimentedOf(s *trace.Snapshot, a *advice.Advice) experimented {
	out := experimented{Experiments: experimentTable(s, a.Experiments)}
	if a.Ceiling.Text != "" {
		gain := ChangeOf(&a.Ceiling.Change)
		out.CeilingGain = &gain
	}
	return out
}

// experimentTable lists the experiments of a session.
func experimentTable(s *trace.Snapshot, xs []attribution.Experiment) []experimentSummary {
	out := make([]experimentSummary, 0, len(xs))
	for i := range xs {
		x := &xs[i]
		e := experimentSummary{
			Kind: string(x.Kind), FirstSegment: x.First, Start: seconds(x.Start), End: none,
			A: knobMap(x.A), B: knobMap(x.B), SideA: summariseSide(x, 0), SideB: summariseSide(x, 1),
			Pairs: len(x.Pairs), LeftOut: x.LeftOut, Change: ChangeOf(&x.Change.Throughput), Kept: x.Kept, Why: x.Why, Text: x.Text(),
		}
		if !x.Running() {
			e.End = seconds(x.End)
		}
		for k := range s.Segments {
			if x.Has(s.Segments[k].Index) {
				e.Segments++
			}
		}
		for k := range x.Decisions {
			e.Decisions = append(e.Decisions, DecisionOf(&x.Decisions[k]))
		}
		e.Flags, e.DataLoader = keptBy(&s.Meta, x)
		out = append(out, e)
	}
	return out
}

// keptBy returns the settings that a tune left in force: as flags to add to the run's, and as
// arguments of PyTorch's DataLoader.
func keptBy(m *trace.Meta, x *attribution.Experiment) (flags, loader string) {
	switch {
	case x.Kind != trace.Tune || x.Running():
		return "", ""
	case x.Kept:
		loader, _ = report.DataLoader(m.Host, x.Settings[1], x.B)
		if m.Watched() { // the script does not have our flags
			return "", loader
		}
		return report.Flags(x.B), loader
	}
	loader, _ = report.DataLoader(m.Host, x.Settings[0], nil)
	return "", loader
}

func knobMap(knobs []knob.Setting) map[string]string {
	out := make(map[string]string, len(knobs))
	for _, k := range knobs {
		out[k.Name] = k.Value
	}
	return out
}
