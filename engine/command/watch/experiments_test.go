package watch

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// settings is a Control that applies changes at once.
type settings struct {
	mu      sync.Mutex
	session *trace.Session
	knobs   []knob.Setting
	index   int32
}

func (c *settings) Set(changes []knob.Setting) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.knobs = slices.Clone(c.knobs)
	for _, k := range changes {
		for i := range c.knobs {
			if c.knobs[i].Name == k.Name {
				c.knobs[i].Value = k.Value
			}
		}
	}
	c.index++
	c.session.Add(&trace.Drained{Segments: []trace.Segment{{Index: c.index, Start: int64(c.index), Knobs: c.knobs}}})
	return nil
}

func (c *settings) Requested() []knob.Setting { c.mu.Lock(); defer c.mu.Unlock(); return c.knobs }

// TestExperimentsEnd: one experiment runs at a time, whoever asks, and all end with the run.
func TestExperimentsEnd(t *testing.T) {
	for _, stop := range []bool{true, false} {
		rec, s := trace.NewRecorder(trace.NewClock(), 0), trace.NewSession(trace.Meta{})
		c := &settings{session: s, knobs: []knob.Setting{{Name: "num_workers", Value: "1"}, {Name: "ceiling", Value: "off"}}, index: -1}
		if err := c.Set(nil); err != nil {
			t.Fatal(err)
		}
		col := trace.NewCollector(rec, s, nil, nil)
		x := StartExperiments(s, c, rec, nil)
		other := []knob.Setting{{Name: "num_workers", Value: "2"}}
		var refused sync.WaitGroup
		begun := make(chan error, 4)
		for range cap(begun) {
			refused.Go(func() { begun <- x.Begin(trace.Paired, other) })
		}
		refused.Wait()
		close(begun)
		n := 0
		for err := range begun {
			if err == nil {
				n++
			} else if !strings.Contains(err.Error(), "another one is under way") {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d were begun at once", n)
		}
		want := trace.RunEnded
		if stop {
			want = "it was stopped"
			x.Stop()
			for over := false; !over; time.Sleep(time.Millisecond) {
				x.mu.Lock()
				over = x.now == nil
				x.mu.Unlock()
			}
		}
		x.Ask([]experiment.Question{{Kind: trace.Ceiling}}, func(error) { t.Error("answered without a step") })
		x.Close()
		if err := col.Stop(trace.Outcome{}); err != nil {
			t.Fatal(err)
		}
		asked := s.Snapshot(0, 0).Experiments
		if len(asked) != 1 || asked[0].Why != want || asked[0].Running() {
			t.Errorf("%+v", asked)
		}
		if got := knob.ValueOf(c.Requested(), "num_workers"); stop && got != "1" {
			t.Errorf("left with num_workers %s", got)
		}
	}
}
