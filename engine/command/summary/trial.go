package summary

import (
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Trial is what gpustall try found.
type Trial struct {
	Type      string             `json:"type"` // "try"
	Session   string             `json:"session"`
	Predicted *predictionSummary `json:"predicted"` // null if nothing was predicted
	experimentSummary

	name, words string
}

// TrialOf returns the experiment of that index, with what was predicted of it.
func TrialOf(s *trace.Snapshot, session string, index int32, predicted trace.Prediction) *Trial {
	a, _ := advice.Overall(s, nil)
	for i, x := range a.Experiments {
		if x.Index == index {
			out := Trial{Type: "try", Session: session, Predicted: summarisePrediction(predicted), name: x.Name()}
			out.experimentSummary = experimentTable(s, a.Experiments)[i]
			if predicted.Made() {
				out.words = predict.Words(predicted)
			}
			return &out
		}
	}
	return nil
}

// Lines returns the result for a reader.
func (t *Trial) Lines() string {
	var b strings.Builder
	if t.words != "" {
		writeLine(&b, "before", "%s", t.words)
	}
	writeLine(&b, t.name, "%s", units.Line(t.Text))
	return b.String()
}
