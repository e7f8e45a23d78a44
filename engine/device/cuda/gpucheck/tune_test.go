package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	err          error
}

func (t *tunable) Untuned([]device.Launch) int { return 1 }
func (t *tunable) Tuned() []device.Tuned {
	return []device.Tuned{{Layer: "conv1", Op: "conv_forward", Variant: "b", First: "a", Time: time.Microsecond, FirstTime: 2 * time.Microsecond}}
}
func (t *tunable) Tune(context.Context, []device.Launch, func(int, int)) ([]string, error) {
	return t.notes, t.err
}

func TestTunePiece(t *testing.T) {
	d := &tunable{Device: openCPU(t), notes: []string{"autotune: c is not used: it computes y wrong"}}
	arg, err := json.Marshal(tuneSpec{Model: "cnn", Side: 8, Type: "fp32", Batch: 2, Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tunePiece(d, []string{string(arg)}, func(any) {})
	got, ok := v.(tuning)
	if err != nil || !ok || len(got.Kernels) != 1 || got.Kernels[0].Planned != 2 || got.Untuned != 1 || len(got.Notes) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	d.err = fmt.Errorf("the context is gone")
	if _, err := tunePiece(d, []string{string(arg)}, func(any) {}); err == nil {
		t.Error("a broken context was not told")
	}
}

// A variant that breaks the process costs one try; what it said and the next one's
// findings are kept, and the part fails.
func TestTuneTries(t *testing.T) {
	c, out := newCheck(t)
	c.facts.Types = []string{"fp32"}
	script := filepath.Join(c.dir, "self")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
if [ -e tried ]; then
  echo '{"kernels": [{"op": "conv_forward", "variant": "b", "planned": "a", "us": 1, "planned_us": 3}], "notes": ["autotune: stopped: the others take the planner'"'"'s guess"]}'
else
  touch tried
  echo '{"untuned": 3}'
  echo "variant x broke the GPU's context" >&2
  exit 1
fi
`), 0o700); err != nil {
		t.Fatal(err)
	}
	c.self, c.quick = script, true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := c.one(ctx, part{"tune", time.Minute, func(ctx context.Context, c *check) (any, error) { return c.tune(ctx) }})
	if err == nil || r.Status != statusFailed || !strings.Contains(r.Why, "variant x broke") || strings.Contains(r.Why, "planner's guess") {
		t.Fatalf("%+v, %v", r, err)
	}
	all := r.Value.([]tuning)
	if len(all) != 1 || all[0].Tries != 2 || len(all[0].Kernels) != 1 || len(all[0].Errors) != 1 {
		t.Errorf("%+v", all)
	}
	c.report.Parts = []result{r}
	c.table(out)
	for _, want := range []string{"1 not as planned: 1.00 µs for 3.00 µs", "variant x broke"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}
