package summary

import (
	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/trace"
)

// forecast is the part of the summary that is predicted.
type forecast struct {
	ExpectedGain *predictionSummary `json:"expected_gain,omitempty"` // of the advice
	Predictions  []outcomeSummary   `json:"predictions,omitempty"`   // of changes that were made, with the results
	Feed         string             `json:"feed,omitempty"`          // whether this machine can feed the device, in a sentence
}

func forecastOf(s *trace.Snapshot, a *advice.Advice, rows []attribution.SegmentStats) forecast {
	first := a.First()
	_, feed := a.Feed(s.Meta.Device)
	return forecast{summarisePrediction(first.Predicted), summariseOutcomes(s, rows), feed}
}

// predictionSummary is a prediction as JSON.
type predictionSummary struct {
	Rate      number `json:"samples_per_s"`
	RateLow   number `json:"samples_per_s_low"`
	RateHigh  number `json:"samples_per_s_high"`
	Gain      number `json:"gain"` // of throughput, 0.25 for 25 %
	GainLow   number `json:"gain_low"`
	GainHigh  number `json:"gain_high"`
	DataShare number `json:"data_share"`
	Predicted bool   `json:"predicted"` // always true
	Text      string `json:"text"`      // all of this in words; of a prediction that is too wide to go by, the numbers are null, but for the low ends of a clear gain
}

func summarisePrediction(p trace.Prediction) *predictionSummary {
	if !p.Made() {
		return nil
	}
	out := predictionSummary{Rate: none, RateLow: none, RateHigh: none, Gain: none, GainLow: none, GainHigh: none, DataShare: none, Predicted: true, Text: predict.Words(p)}
	vague, gain := predict.Vague(p), predict.Gain(p)
	if !vague {
		out.Rate, out.RateHigh, out.DataShare = number(p.Rate), number(p.Hi), number(p.Data)
		out.Gain, out.GainHigh = number(gain.Value-1), number(gain.Hi-1)
	}
	if !vague || predict.Faster(p) {
		out.RateLow, out.GainLow = number(p.Lo), number(gain.Lo-1)
	}
	return &out
}

// outcomeSummary is a change of knobs: what was predicted and what was measured.
type outcomeSummary struct {
	Segment   int32              `json:"segment"`
	Change    string             `json:"change"`
	Predicted *predictionSummary `json:"predicted"` // null if nothing was predicted
	Measured  number             `json:"measured_samples_per_s"`
	Gain      number             `json:"measured_gain"`
	GainLow   number             `json:"measured_gain_low"` // the low end of the 95 % confidence interval; null if there is none
	GainHigh  number             `json:"measured_gain_high"`
	Inside    bool               `json:"inside"` // the result lies within the predicted interval
}

func summariseOutcomes(s *trace.Snapshot, rows []attribution.SegmentStats) []outcomeSummary {
	var out []outcomeSummary
	for _, o := range predict.Outcomes(s, rows) {
		r := &rows[o.Row]
		out = append(out, outcomeSummary{
			Segment: r.Segment.Index, Change: o.Change, Predicted: summarisePrediction(o.Predicted),
			Measured: number(r.SamplesPerSecond), Gain: number(o.Measured.Value - 1),
			GainLow: number(o.Measured.Lo - 1), GainHigh: number(o.Measured.Hi - 1), Inside: o.Inside,
		})
	}
	return out
}
