package predict

import (
	"math"
	"strconv"
	"testing"

	"dev.gpustall/engine/analysis/attribution/attributiontest"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestLock: a worker that waits for a lock waits for each of the others in turn, so any number of
// workers loads as fast as one. Another simulation, with such waits, makes the run to compare with.
func TestLock(t *testing.T) {
	run := func(workers int) attributiontest.Run {
		r := attributiontest.Healthy()
		r.Workers, r.Read = workers, int64(workers)*30*attributiontest.Msec
		return r
	}
	for _, c := range []struct {
		from, to int
		seen     []float64 // workers that wait for the lock, second by second
		grows    bool      // whether a gain is predicted where the lock is not seen
	}{
		{2, 8, []float64{1, 1, 1, 0.9, 1}, false},
		{4, 8, []float64{3, 2.9, 3, 3, 3}, false},
		{4, 1, []float64{3, 3, 3, 3, 3}, false},
		{2, 8, []float64{0, 0, 0, 0, 0}, true},
		{2, 8, nil, true},
	} {
		s := snapshot(run(c.from))
		s.Gauges = map[string][]trace.Point{}
		for i, v := range c.seen {
			s.Gauges[trace.GaugeLockWaiting] = append(s.Gauges[trace.GaugeLockWaiting], trace.Point{T: s.Now * int64(i+4) / 10, V: v})
		}
		m := fit(t, s)
		p, _ := m.Predict(knob.Setting{Name: numWorkers, Value: strconv.Itoa(c.to)})
		is := rate(snapshot(run(c.to)))
		if right := math.Abs(p.Rate/is-1) < 0.15 && p.Lo <= is && is <= p.Hi; right == c.grows || m.Lock.Known != (c.seen != nil) || p.Hi/p.Lo > 2.2 && !c.grows {
			t.Errorf("%d -> %d workers, %v seen: %.0f samples/s, %.0f to %.0f; the other run has %.0f", c.from, c.to, c.seen, p.Rate, p.Lo, p.Hi, is)
		}
	}
}

// TestSizes: the last batches of epochs are left out, and batches of a sampler's own sizes are not.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		samples []int32 // of steps, by turns
		kept    int     // of 12
		size    float64
	}{{[]int32{8}, 12, 0}, {[]int32{8, 8, 2}, 8, 0}, {[]int32{4, 16, 4}, 12, 8}, {[]int32{4, 8, 24}, 12, 12}} {
		s := &trace.Snapshot{}
		for i := range 12 {
			s.Recent = append(s.Recent, trace.Step{Index: int32(i), Samples: c.samples[i%len(c.samples)]})
		}
		steps := stepsOf(s, &trace.Tally{Last: 11})
		if size := sizeOf(steps); len(steps) != c.kept || size != c.size {
			t.Errorf("%v samples: %d of 12 steps kept, %v in a batch, want %d and %v", c.samples, len(steps), size, c.kept, c.size)
		}
	}
}

// TestLearnsFromPast: where more Python workers waited longer for something, they are assumed to
// share it, whatever it is.
func TestLearnsFromPast(t *testing.T) {
	for _, c := range []struct {
		name   string
		python bool
		read   int64 // ms of a read, of 4 workers where one's took 30
		want   float64
	}{
		{"one at a time", true, 120, 1},
		{"two at a time", true, 60, 2},
		{"as many as there are", true, 30, 0},
		{"of our own loader, whose reads come from the page cache", false, 120, 0},
	} {
		var tally trace.Tally
		st := &tally.Steady
		st.Steps, st.Samples = 100, 800
		st.Work.Batch.Blocked = 4e9
		m := &Model{processes: c.python, loading: Work{Blocked: float64(c.read) * 1e6}, past: []past{{reading: 1, blocked: 30e6 / 8}}}
		m.plant.load = []demand{{0, float64(c.read) * 1e6}}
		st.Wall = 100 * c.read * 1e6 / 4 // four are under way at any time
		m.storage(&trace.Snapshot{}, &tally)
		if got := m.disk[1]; math.Abs(got-c.want) > 1e-9 || (m.reading > 0) != (c.want > 0) {
			t.Errorf("%s: %v side by side, want %v", c.name, got, c.want)
		}
	}
}
