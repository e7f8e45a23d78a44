package report

import (
	"slices"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
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

// TestBackAtTheStart: where a run ends with the settings of its start, the first page sets what was tried beside them.
func TestBackAtTheStart(t *testing.T) {
	of := func(workers string, steps int) stretch {
		return stretch{reason: "num_workers", knobs: []knob.Setting{{Name: "num_workers", Value: workers}}, steps: steps, workers: 1,
			decode: 4 * time.Millisecond, comp: 8 * time.Millisecond}
	}
	for _, c := range []struct {
		stretches []stretch
		want      int
	}{
		{[]stretch{of("1", 60), of("2", 60), of("1", 60)}, 1},
		{[]stretch{of("1", 60), of("2", 60), of("3", 60), of("2", 5), of("1", 60)}, 2},
		{[]stretch{of("1", 60), of("2", 5), of("1", 60)}, 0},
	} {
		s := script{meta: trace.Meta{ID: "back", Samples: 6000}, stretches: c.stretches, perEpoch: 60}.run(t)
		if a := newAccount(s); a.first != 0 || a.last != c.want {
			t.Errorf("%d stretches: row %d beside %d, want %d beside 0", len(c.stretches), a.last, a.first, c.want)
		}
	}
}
