package report

import (
	"slices"
	"testing"

	"dev.gpustall/engine/analysis/stats"
)

// TestEpochRow checks that the change beside two epoch times is theirs.
func TestEpochRow(t *testing.T) {
	half := &stats.Change{Answer: stats.Different, Ratio: 2, Lo: 1.9, Hi: 2.1, Drifted: 1}
	inTurns := &turns{rates: [2]float64{100, 200}, gain: half, samples: 1000}
	none, projected, measured := epochTime{}, epochTime{projected: 8e9}, epochTime{runs: 1, measured: 10e9, projected: 8e9}
	for _, c := range []struct {
		name string
		of   [2]epochTime
		t    *turns
		want []string
	}{
		{"both measured", [2]epochTime{measured, {runs: 1, measured: 4e9, projected: 4e9}}, nil, []string{"10.0 s", "4.00 s", "~-60 %"}},
		{"both projected", [2]epochTime{projected, {projected: 4e9}}, nil, []string{"~8.00 s", "~4.00 s", "-50 %"}},
		{"one measured", [2]epochTime{measured, {projected: 4e9}}, nil, []string{"10.0 s", "~4.00 s", "~-60 %"}},
		{"not known", [2]epochTime{none, projected}, nil, []string{"-", "~8.00 s", "-"}},
		{"both measured, in turns", [2]epochTime{measured, {runs: 1, measured: 4e9}}, inTurns, []string{"10.0 s", "4.00 s", "~-60 %"}},
		{"both projected, in turns", [2]epochTime{projected, {projected: 3e9}}, inTurns, []string{"~10.0 s", "~5.00 s", "-50 %"}},
		{"before measured, in turns", [2]epochTime{measured, {projected: 3e9}}, inTurns, []string{"10.0 s", "~5.00 s", "-50 %"}},
		{"after measured, in turns", [2]epochTime{projected, measured}, inTurns, []string{"~20.0 s", "10.0 s", "-50 %"}},
	} {
		if got := epochRow(c.of, half, c.t)[1:]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
