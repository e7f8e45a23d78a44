package summary

import (
	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
)

// Comparison is a report.Comparison as JSON.
type Comparison struct {
	Type        string              `json:"type"`
	A           compared            `json:"a"`
	B           compared            `json:"b"`
	Throughput  Change              `json:"throughput"`
	Busy        Change              `json:"busy_per_sample"`
	Margin      number              `json:"margin"`
	Alike       bool                `json:"same_work"`
	Told        string              `json:"told,omitempty"`
	Lines       []changedLine       `json:"lines,omitempty"`
	Settings    []report.Difference `json:"knobs"`
	Recorded    bool                `json:"knobs_recorded"` // false if a side is a trace, which tells only whether num_workers is 0
	Environment []report.Difference `json:"environment"`
}

// changedLine is what a line of the script's code takes for a sample on both sides.
type changedLine struct {
	Line   string `json:"line"`
	Source string `json:"source"`
	At     string `json:"at"`
	A      number `json:"a_s_per_sample"`
	B      number `json:"b_s_per_sample"`
	Sure   bool   `json:"certain"`
}

// compared is one side of a comparison.
type compared struct {
	Session           string            `json:"session"`
	Segment           string            `json:"segment"`
	Steps             int               `json:"steps"`
	SamplesPerSecond  number            `json:"samples_per_s"`
	InTurns           number            `json:"in_turns_samples_per_s,omitempty"`
	DeviceUtilization number            `json:"device_utilization"`
	DataShare         number            `json:"data_share"`
	Stalls            map[string]number `json:"stall_shares"` // of the active time
	Memory            int64             `json:"memory_bytes,omitempty"`
	Verdict           string            `json:"verdict"`
	Labels            []string          `json:"labels,omitempty"`
}

// ComparisonOf returns a comparison as JSON.
func ComparisonOf(c *report.Comparison) Comparison {
	var changed []changedLine
	for _, l := range c.Lines {
		changed = append(changed, changedLine{l.Line, l.Source, string(l.At), number(l.Took[0] / 1e9), number(l.Took[1] / 1e9), l.Sure})
	}
	a, b := sideOf(c.Sides[0]), sideOf(c.Sides[1])
	a.InTurns, b.InTurns = number(c.Turns[0]), number(c.Turns[1])
	return Comparison{
		Type: "comparison", Lines: changed, A: a, B: b,
		Throughput: ChangeOf(&c.Throughput), Busy: ChangeOf(&c.Busy), Margin: number(c.Margin), Alike: len(c.Work) == 0, Told: c.Told,
		Settings: append([]report.Difference{}, c.Settings...), Recorded: !c.Traces, Environment: append([]report.Difference{}, c.Environment...),
	}
}

func sideOf(d *report.Compared) compared {
	out := compared{
		Session: d.Session, Segment: d.Row.Name(), Steps: d.Row.Steps, SamplesPerSecond: number(d.Row.SamplesPerSecond),
		DeviceUtilization: number(d.Row.Utilisation), DataShare: number(d.Row.DataShare), Stalls: map[string]number{},
		Memory: d.Memory, Verdict: d.Verdict.Class, Labels: advice.Keys(d.Verdict.Labels),
	}
	for c := range trace.Cause(trace.NumCauses) {
		out.Stalls[c.String()] = number(d.Row.Breakdown.Share(c))
	}
	return out
}
