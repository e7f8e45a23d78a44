package train

import (
	"strings"
	"testing"

	"dev.gpustall/engine/device"
)

// TestIneffective: a knob that is on and has no effect says so in one sentence, which
// does not depend on other knobs. The device's reason goes before another knob's.
func TestIneffective(t *testing.T) {
	cuda := device.Info{Kind: "cuda", Types: precisions}
	cpu := device.Info{Kind: "cpu", Types: precisions[:1], PinNote: "nothing is copied"}
	for _, c := range []struct {
		name string
		info device.Info
		set  string // name=value pairs
		says string // empty: nothing
	}{
		{"capture with every step timed", cuda, "capture=on time_ops=every", "capture=on has no effect: time_ops=every times"},
		{"the same with other knobs", cuda, "capture=on time_ops=every batch_size=64 gradient_accumulation=4", "capture=on has no effect: time_ops=every times"},
		{"capture with some steps timed", cuda, "capture=on", ""},
		{"every step timed without capture", cuda, "time_ops=every", ""},
		{"capture without a GPU", cpu, "capture=on time_ops=every", "capture=on has no effect: only CUDA"},
		{"page-locked memory without copies", cpu, "pin_memory=on", "pin_memory=on has no effect: nothing is copied"},
		{"the defaults, autotune=on among them", cpu, "", ""},
		{"page-locked memory", cuda, "pin_memory=on", ""},
		{"a straggler that nobody is", cpu, "num_workers=2 inject_straggler=9:1ms", "inject_straggler=9:1ms has no effect: it names worker 9"},
		{"a straggler", cpu, "num_workers=9 inject_straggler=9:1ms", ""},
	} {
		k := DefaultKnobs()
		for set := range strings.FieldsSeq(c.set) {
			name, value, _ := strings.Cut(set, "=")
			if err := k.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		got := KnobTable.Ineffective(k, Specs(c.info))
		if c.says == "" && len(got) > 0 || c.says != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.says)) {
			t.Errorf("%s: %q", c.name, got)
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
