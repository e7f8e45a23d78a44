package predict

import (
	"math"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestStorage: beyond the number of reads that a disk serves side by side, n times as many take n
// times as long. Two numbers of workers tell that number.
func TestStorage(t *testing.T) {
	for _, tt := range []struct {
		name        string
		few, slower float64 // reads under way before (4 are now), and how much longer each takes now
		want        float64
	}{
		{"one read is all that the disk brings", 1, 4, 1},
		{"two reads are", 1, 2, 2},
		{"four are as fast as one", 1, 1, 8}, // so that more may be
		{"too alike to tell", 3.5, 4, 2e9 / 25e6},
	} {
		var tally trace.Tally
		st := &tally.Steady
		st.Steps, st.Samples, st.Wall = 100, 800, 1e9
		st.Work.Batch.Blocked = 4e9
		m := &Model{loading: Work{Blocked: 40e6}, past: []past{{reading: tt.few, blocked: 5e6 / tt.slower}}}
		m.plant.load = []demand{{0, 40e6}}
		s := &trace.Snapshot{Gauges: map[string][]trace.Point{trace.GaugeDiskOurs: {{V: 100e6}}}}
		if m.storage(s, &tally); math.Abs(m.disk[1]/tt.want-1) > 0.01 {
			t.Errorf("%s: %v reads side by side, want %v", tt.name, m.disk, tt.want)
		}
		if one := 40e6 * min(1, m.disk[1]/4); math.Abs(m.plant.load[0].blocked-one) > 1 {
			t.Errorf("%s: a read by itself takes %.0f ns, want %.0f", tt.name, m.plant.load[0].blocked, one)
		}
	}
}

// TestBackToWhatWasMeasured: settings that the session had before are predicted to be as fast as
// then.
func TestBackToWhatWasMeasured(t *testing.T) {
	r := attributiontest.Healthy()
	r.Workers, r.Steps, r.Transform = 1, 160, 30*attributiontest.Msec
	r.ChangeAt, r.ChangeTo, r.Rebuild = 80, 4, 25*attributiontest.Msec
	s := snapshot(r)
	rows := attribution.Segments(s)
	m, ok := Fit(s, s.Tally(1), rows)
	if !ok {
		t.Fatal("no model")
	}
	p, _ := m.Predict(knob.Setting{Name: numWorkers, Value: "1"})
	if want := rows[0].SamplesPerSecond; math.Abs(p.Rate/want-1) > 1e-9 || p.Lo > want || p.Hi < want {
		t.Errorf("%.0f samples/s, %.0f to %.0f; it was %.0f", p.Rate, p.Lo, p.Hi, want)
	}
}
