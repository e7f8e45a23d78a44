package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/figures"
	"dev.gpustall/kernels"
)

// tuneSpec says what to tune; it travels to the process that does it.
type tuneSpec struct {
	Model   string  `json:"model"`
	Side    int     `json:"side"`
	Type    string  `json:"type"`
	Batch   int     `json:"batch"`
	Seconds float64 `json:"seconds"` // at most
}

// tuning is what came of it. Untuned kernels take the planner's guess.
type tuning struct {
	Spec    tuneSpec `json:"spec"`
	Seconds float64  `json:"seconds"`
	Tries   int      `json:"tries"` // processes: a variant that breaks one is left out by the next
	Kernels []chosen `json:"kernels"`
	Untuned int      `json:"untuned"`
	Notes   []string `json:"notes,omitempty"` // above all, of variants that are wrong
	Errors  []string `json:"errors,omitempty"`
}

// chosen is a decision between the variants of one kernel and shape.
type chosen struct {
	Layer   string  `json:"layer"`
	Op      string  `json:"op"`
	Variant string  `json:"variant"`
	First   string  `json:"planned"`
	Micro   float64 `json:"us"`
	Planned float64 `json:"planned_us"`
}

func tunePiece(d device.Device, args []string, emit func(any)) (any, error) {
	var s tuneSpec
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s) != nil {
		return nil, errors.New("tune: the argument is the specification as JSON")
	}
	out := tuning{Spec: s}
	tuner, ok := d.(device.Tuner)
	if !ok {
		return out, nil
	}
	emit(out)
	c := curve{
		trainSpec: trainSpec{Model: s.Model, Side: s.Side, Batch: s.Batch, Steps: 1},
		typ:       kernels.Type(slices.Index(types, s.Type)), tune: time.Duration(s.Seconds * 1e9),
	}
	begin := time.Now()
	r, err := c.planned(d)
	if err != nil {
		return nil, err
	}
	defer r.close()
	out.Seconds, out.Notes, out.Untuned = time.Since(begin).Seconds(), r.notes, tuner.Untuned(r.plan.Train)
	for _, t := range tuner.Tuned() {
		out.Kernels = append(out.Kernels, chosen{t.Layer, t.Op, t.Variant, t.First, micro(t.Time), micro(t.FirstTime)})
	}
	return out, nil
}

// Tries of a tuning, and the time of each. One that hangs is killed then; one that
// does not has ended by itself before, for whatever variant a process is killed at
// counts as wrong.
const (
	tuneTries = 3
	tuneTry   = 40 * time.Second
	tuneEnd   = 10 * time.Second // for what is being tried when the time is up
)

// tune tries the kernels' variants before anything else is measured: each in a
// process of its own, since a variant that is wrong may break or hang it.
func (c *check) tune(ctx context.Context) (any, error) {
	var out []tuning
	var wrong []string
	model, side, sizes := "resnet18", 32, []int{128, 1024}
	if c.quick {
		model, side, sizes = "cnn", 8, []int{4}
	}
	for _, n := range sizes {
		for _, typ := range []string{"bf16", "fp32", "tf32", "fp16"} {
			if !c.has(typ) {
				continue
			}
			t := c.tuneOne(ctx, tuneSpec{Model: model, Side: side, Type: typ, Batch: n})
			if t.Tries == 0 {
				continue // no time: its kernels take the planner's guesses
			}
			out = append(out, t)
			wrong = append(wrong, t.Errors...)
			for _, note := range t.Notes {
				if !slices.Contains(wrong, note) && !strings.Contains(note, "planner's guess") { // too little time or memory
					wrong = append(wrong, note)
				}
			}
		}
	}
	if len(wrong) > 0 {
		return out, fmt.Errorf("%s (%d such findings)", wrong[0], len(wrong))
	}
	return out, nil
}

// tuneOne starts again after a failure, which it notes.
func (c *check) tuneOne(ctx context.Context, s tuneSpec) (t tuning) {
	for try := 1; try <= tuneTries && ctx.Err() == nil; try++ {
		left := min(tuneTry, remaining(ctx)) - tuneEnd
		if left < tuneEnd/2 {
			break
		}
		s.Seconds = left.Seconds()
		arg, err := json.Marshal(s)
		if err != nil {
			return tuning{Spec: s, Tries: try, Errors: []string{err.Error()}}
		}
		var got tuning
		err = func() error {
			ctx, cancel := context.WithTimeout(ctx, tuneTry)
			defer cancel()
			return c.piece(ctx, &got, "tune", string(arg))
		}()
		got.Spec, got.Tries, got.Errors, got.Notes = s, try, t.Errors, append(t.Notes, got.Notes...)
		t = got
		if err == nil {
			break
		}
		t.Errors = append(t.Errors, err.Error())
	}
	return t
}

// tuneRows say how much the tuning gave, and what it found wrong.
func (c *check) tuneRows(row func(name, format string, args ...any)) {
	all, ok := c.value("tune").([]tuning)
	if !ok {
		return
	}
	for _, t := range all {
		best, planned, other := 0.0, 0.0, 0
		for _, k := range t.Kernels {
			best, planned = best+k.Micro, planned+k.Planned
			if k.Variant != k.First {
				other++
			}
		}
		if best > 0 {
			row("tune", "%s batch %d: %d kernels in %.0f s, %d not as planned: %s for %s; %d untuned",
				t.Spec.Type, t.Spec.Batch, len(t.Kernels), t.Seconds, other, figures.Prose.Time(int64(1e3*best)), figures.Prose.Time(int64(1e3*planned)), t.Untuned)
		}
		for _, n := range append(slices.Clone(t.Notes), t.Errors...) {
			row("", "%s", result{Why: n}.short())
		}
	}
}
