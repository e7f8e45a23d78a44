package engine

import (
	"strings"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/ops"
)

// TestIneffective: timing every op against capture is warned of where a step can be captured,
// in one sentence that does not depend on other knobs.
func TestIneffective(t *testing.T) {
	k := DefaultKnobs()
	k.Capture, k.TimeOps = true, ops.Every
	if got := k.ineffective(false); len(got) != 0 {
		t.Errorf("where nothing is captured: %q", got)
	}
	was := k.ineffective(true)
	k.Loader.BatchSize, k.Accumulate = 64, 4
	if now := k.ineffective(true); len(was) != 1 || len(now) != 1 || now[0] != was[0] {
		t.Errorf("%q, then %q", was, now)
	}
	for _, change := range []func(*Knobs){func(k *Knobs) { k.Capture = false }, func(k *Knobs) { k.TimeOps = ops.Sampled }} {
		other := k
		change(&other)
		if got := other.ineffective(true); len(got) != 0 {
			t.Errorf("%+v: %q", other, got)
		}
	}
}

func TestCheckRefusesTimeOps(t *testing.T) {
	k := DefaultKnobs()
	k.TimeOps = 9
	if err := k.Check(device.Info{Types: []string{"fp32"}}); err == nil || !strings.Contains(err.Error(), "time_ops=Mode(9)") {
		t.Errorf("9 is no value of time_ops: %v", err)
	}
}
