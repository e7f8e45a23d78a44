package panel

import (
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/tui/internal/demo"
)

func TestStepping(t *testing.T) {
	workers := &knob.Spec{Type: "int", Max: 64, Values: []string{"0", "1", "2", "4", "8", "16", "32", "64"}}
	prefetch := &knob.Spec{Type: "int", Min: 1, Max: 16}
	pin := &knob.Spec{Type: "bool"}
	precision := &knob.Spec{Type: "enum", Values: []string{"fp32", "tf32", "bf16"}}
	read := &knob.Spec{Type: "duration", Max: 10_000}
	for _, c := range []struct {
		spec    *knob.Spec
		from    string
		d, size int
		want    string
	}{
		{workers, "2", 1, 1, "4"}, {workers, "2", -1, 1, "1"}, {workers, "3", 1, 1, "4"}, {workers, "3", -1, 1, "2"},
		{workers, "64", 1, 1, "64"}, {workers, "0", -1, 1, "0"}, {workers, "0", 1, 4, "8"}, {workers, "1", 1, 16, "64"},
		{prefetch, "2", 1, 1, "3"}, {prefetch, "1", -1, 1, "1"}, {prefetch, "2", 1, 4, "6"}, {prefetch, "2", 1, 16, "16"},
		{pin, "off", 1, 1, "on"}, {pin, "on", -1, 1, "off"}, {pin, "true", -1, 1, "off"},
		{precision, "fp32", 1, 1, "tf32"}, {precision, "bf16", 1, 1, "bf16"}, {precision, "?", 1, 1, "fp32"},
		{read, "0s", 1, 1, "1ms"}, {read, "5ms", -1, 4, "1ms"}, {read, "5ms", -1, 16, "off"}, {read, "off", 1, 1, "1ms"}, {read, "9.999s", 1, 4, "10s"},
	} {
		if got := stepped(c.spec, c.from, c.d, c.size); got != c.want {
			t.Errorf("%s %s stepped %d x %d = %s, want %s", c.spec.Type, c.from, c.d, c.size, got, c.want)
		}
	}
}

// TestLooksRow: the last row says how often lines are looked for. It changes at once, and is no staged change.
func TestLooksRow(t *testing.T) {
	run, rate := demo.Session(), &looking{"on"}
	k := NewKnobs(nil, true, rate)
	k.Update(run.Snapshot(0, 0), run)
	k.sel = k.find(looksName)
	if k.sel != len(k.specs)-1 {
		t.Fatalf("the row is at %d of %d", k.sel, len(k.specs))
	}
	for _, c := range []struct{ key, want string }{{"right", "off"}, {"right", "fast"}, {"left", "off"}, {"i", "fast"}} {
		Pressed(k.Keys, c.key)(c.key)
		if rate.rate != c.want || len(k.Changes()) > 0 {
			t.Errorf("after %s lines are %s, want %s; staged %v", c.key, rate.rate, c.want, k.Changes())
		}
	}
	k = NewKnobs(nil, true, nil)
	if k.Update(run.Snapshot(0, 0), run); k.Has(looksName) {
		t.Error("a run without lines has the row")
	}
}

// TestConfirmationFades: a confirmation is marked brightly at first, then less, then no more.
func TestConfirmationFades(t *testing.T) {
	run := demo.Session()
	k := NewKnobs(nil, true, nil)
	k.Update(run.Snapshot(0, 0), run)
	k.stage("num_workers", "6")
	changes := k.Changes()
	if err := run.Set(changes); err != nil {
		t.Fatal(err)
	}
	k.Accepted(changes, run.Requested())
	run.Until(9600)
	live := run.Snapshot(0, 0)
	k.Update(live, run)
	for after, want := range map[time.Duration]knobState{0: knobConfirmed, 3 * time.Second: knobFading, 7 * time.Second: knobSteady} {
		if got := k.state("num_workers", live.Now+int64(after)); got != want {
			t.Errorf("after %v the knob's state is %d, want %d", after, got, want)
		}
	}
}
