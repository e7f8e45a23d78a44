package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/device"
)

// tunable is a cpu device that pretends to have variants.
type tunable struct {
	device.Device
	device.Tuner // none: what is called of it is below
	notes        []string
}

func (t *tunable) Untuned([]device.Launch) int { return 1 }
func (t *tunable) Tuned() []device.Tuned {
	return []device.Tuned{{Layer: "conv1", Op: "conv_forward", Variant: "b", First: "a", Time: time.Microsecond, FirstTime: 2 * time.Microsecond,
		Tried: []device.Tried{{Variant: "a", Time: 2 * time.Microsecond}, {Variant: "b", Time: time.Microsecond}, {Variant: "c", Why: "it hangs"}}}}
}
func (t *tunable) Tune(context.Context, []device.Launch, func(int, int)) []string { return t.notes }

func TestTunePiece(t *testing.T) {
	d := &tunable{Device: openCPU(t), notes: []string{"autotune: c is not used: it computes y wrong"}}
	arg, err := json.Marshal(tuneSpec{Model: "cnn", Side: 8, Type: "fp32", Batch: 2, Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tunePiece(d, []string{string(arg)}, func(any) {})
	got, ok := v.(tuning)
	if err != nil || !ok || len(got.Kernels) != 1 || got.Kernels[0].Planned != 2 || len(got.Kernels[0].Tried) != 3 || got.Kernels[0].Tried[2].Wrong == "" || got.Untuned != 1 || len(got.Notes) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// What is wrong with a variant fails the part and is in the table, as is a tuning that
// ended early; what is too little time for is not wrong.
func TestTuneFindings(t *testing.T) {
	c, out := newCheck(t)
	c.facts.Types = []string{"bf16", "fp32"}
	script := filepath.Join(c.dir, "self")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
case "$3" in
*bf16*)
  echo '{"kernels": [{"op": "conv_forward", "variant": "b", "planned": "a", "us": 1, "planned_us": 3}], "notes": ["autotune: stopped: the others take the planner'"'"'s guess", "variant x broke the GPU'"'"'s context"]}' ;;
*)
  echo '{"untuned": 3}'
  echo "out of luck" >&2
  exit 1
esac
`), 0o700); err != nil {
		t.Fatal(err)
	}
	c.self, c.quick = script, true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.one(ctx, part{"tune", time.Minute, func(ctx context.Context, c *check) (any, error) {
		return c.tune(ctx, []string{"bf16", "fp32"}, []int{128})
	}})
	if err == nil || r.Status != statusFailed || !strings.Contains(r.Why, "variant x broke") || !strings.Contains(r.Why, "(2 such") {
		t.Fatalf("%+v, %v", r, err)
	}
	all := r.Value.([]tuning)
	if len(all) != 2 || len(all[0].Kernels) != 1 || all[1].Untuned != 3 || !strings.Contains(all[1].Error, "out of luck") {
		t.Errorf("%+v", all)
	}
	c.report.Parts = []result{r}
	c.write(out)
	for _, want := range []string{"1 not as planned: 1.00 µs for 3.00 µs", "variant x broke", "out of luck"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}
