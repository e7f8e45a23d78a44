package summary

import "dev.gpustall/engine/trace"

// Decision is a decision of a tune as JSON.
type Decision struct {
	Type      string             `json:"type,omitempty"` // "decision" in a line of its own
	T         number             `json:"t_s"`
	Knobs     map[string]string  `json:"knobs"` // that differ from the best so far; in the end from those at the start
	Verdict   trace.Verdict      `json:"verdict"`
	Predicted *predictionSummary `json:"predicted,omitempty"`
	Rate      number             `json:"samples_per_s"` // null if it was not measured
	Gain      number             `json:"gain"`          // of throughput
	GainLow   number             `json:"gain_low"`
	GainHigh  number             `json:"gain_high"`
	Steps     int64              `json:"steps"`
	Text      string             `json:"text"`
}

// DecisionOf returns a decision as JSON.
func DecisionOf(d *trace.Decision) Decision {
	out := Decision{
		T: seconds(d.T), Knobs: knobMap(d.Knobs), Verdict: d.Verdict, Predicted: summarisePrediction(d.Predicted),
		Rate: none, Gain: none, GainLow: none, GainHigh: none, Steps: d.After.Steps, Text: d.Text,
	}
	if d.After.Active > 0 {
		out.Rate = number(1e9 * float64(d.After.Samples) / float64(d.After.Active))
	}
	if d.Ratio > 0 {
		out.Gain, out.GainLow, out.GainHigh = number(d.Ratio-1), number(d.Lo-1), number(d.Hi-1)
	}
	return out
}
