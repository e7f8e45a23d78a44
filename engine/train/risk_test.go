package train_test

import (
	"context"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
)

// TestForesee: the risks of a change are told while the run goes on and its knobs
// change, without a race. Asking changes nothing.
func TestForesee(t *testing.T) {
	r := onCPU(t, stripes{n: 200}, small(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		for _, batch := range []string{"8", "16", "8"} {
			if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: batch}}); err != nil {
				t.Error(err)
			}
			for range 5 {
				if risks := r.engine.Foresee([]knob.Setting{{Name: "batch_size", Value: "4"}}); len(risks) > 0 {
					t.Errorf("smaller batches: %+v", risks)
				}
			}
		}
		for _, c := range []struct{ name, value, says string }{
			{"num_workers", "64", "64 workers on "}, {"num_workers", "99", ""}, {"no_such_knob", "1", ""},
		} {
			risks := r.engine.Foresee([]knob.Setting{{Name: c.name, Value: c.value}})
			if len(risks) == 0 || c.says == "" && !risks[0].Grave || !strings.HasPrefix(risks[len(risks)-1].Text, c.says) {
				t.Errorf("%s=%s: %+v", c.name, c.value, risks)
			}
		}
	}()
	s := r.run(t, ctx)
	<-done
	if v := knob.ValueOf(s.Segments[len(s.Segments)-1].Knobs, "num_workers"); v == "64" {
		t.Error("what was only asked about is in force")
	}
}
