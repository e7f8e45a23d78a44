package summary

import (
	"encoding/json"
	"testing"

	"dev.gpustall/engine/analysis/stats"
)

// TestHopelessIntervalIsNull: the ends of an interval that says nothing are null.
func TestHopelessIntervalIsNull(t *testing.T) {
	for have, want := range map[float64]string{
		2:   `{"answer":"not known yet","ratio":0.5,"lo":0.1,"hi":2,"missing":"the steps so far differ too much to tell"}`,
		1e9: `{"answer":"not known yet","ratio":0.5,"lo":null,"hi":null,"missing":"the steps so far differ too much to tell"}`,
	} {
		c := stats.Change{Ratio: 0.5, Lo: 0.1, Hi: 2, Missing: stats.Missing{What: stats.Precision, Have: have, Want: 0.02}}
		if got, err := json.Marshal(ChangeOf(&c)); err != nil || string(got) != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
}
