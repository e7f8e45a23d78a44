package rows

import (
	"testing"

	"dev.gpustall/engine/trace"
)

func TestPredictionText(t *testing.T) {
	p := trace.Prediction{Base: 310.5, Rate: 402, Lo: 380, Hi: 430.25, Data: 0.125, DataLo: 0, DataHi: 0.25}
	for _, tt := range []struct {
		text string
		want trace.Prediction
	}{
		{PredictionText(&p), p},
		{PredictionText(&trace.Prediction{}), trace.Prediction{}},
		{"base 2 rate 3 later 7", trace.Prediction{Base: 2, Rate: 3}},
		{"base 2 rate", trace.Prediction{}},
		{"base NaN rate 3", trace.Prediction{}},
		{"base 1 rate -3", trace.Prediction{}},
		{"base one rate 3", trace.Prediction{}},
	} {
		if got := ParsePrediction(tt.text); got != tt.want {
			t.Errorf("%q is %+v, want %+v", tt.text, got, tt.want)
		}
	}
	if PredictionText(&trace.Prediction{}) != "" {
		t.Error("no prediction has a text")
	}
}
