package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// tuneSpec says what to tune. It is sent to the process that tunes.
type tuneSpec struct {
	Model   string  `json:"model"`
	Side    int     `json:"side"`
	Type    string  `json:"type"`
	Batch   int     `json:"batch"`
	Seconds float64 `json:"seconds"` // at most
}

// tuning is the result of a tuneSpec. Untuned kernels take the planner's guess.
type tuning struct {
	Spec    tuneSpec `json:"spec"`
	Seconds float64  `json:"seconds"`
	Kernels []chosen `json:"kernels"`
	Untuned int      `json:"untuned"`
	Notes   []string `json:"notes,omitempty"` // above all, of variants that are wrong
	Error   string   `json:"error,omitempty"`
}

// chosen is a decision between the variants of one kernel and shape.
type chosen struct {
	Layer   string  `json:"layer"`
	Op      string  `json:"op"`
	Variant string  `json:"variant"`
	First   string  `json:"planned"`
	Micro   float64 `json:"us"`
	Planned float64 `json:"planned_us"`
	Tried   []tried `json:"tried"`
}

// tried is the result of one variant.
type tried struct {
	Variant string  `json:"variant"`
	Micro   float64 `json:"us,omitempty"`
	Wrong   string  `json:"wrong,omitempty"` // why
}

func triedOf(ts []device.Tried) (out []tried) {
	for _, t := range ts {
		out = append(out, tried{t.Variant, micro(t.Time), t.Why})
	}
	return out
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
		out.Kernels = append(out.Kernels, chosen{t.Layer, t.Op, t.Variant, t.First, micro(t.Time), micro(t.FirstTime), triedOf(t.Tried)})
	}
	return out, nil
}

// tuneLimit is the time to tune one type and batch size. tuneEnd is the time after it for the variant
// that is being tried then.
const (
	tuneLimit = 40 * time.Second
	tuneEnd   = 10 * time.Second
)

// tuneFirst tunes what matters most: bf16 at batch 1024.
func (c *check) tuneFirst(ctx context.Context) (any, error) {
	if !c.has("bf16") {
		return nil, skip("the device has no bf16")
	}
	return c.tune(ctx, []string{"bf16"}, []int{1024})
}

// tuneAll tunes the rest. It does not try again what is known.
func (c *check) tuneAll(ctx context.Context) (any, error) {
	out, err := c.tune(ctx, []string{"bf16", "fp32", "tf32", "fp16"}, []int{128, 1024})
	if c.quick || !c.has("bf16") || remaining(ctx) < tuneLimit {
		return out, err
	}
	t := c.tuneOne(ctx, tuneSpec{Model: "resnet18", Side: 224, Type: "bf16", Batch: batch224, Seconds: (tuneLimit - tuneEnd).Seconds()})
	return append(out, t), err
}

// tune tries the kernels' variants before anything is measured with them. A wrong one can end only the
// process that tries it (cuda.Config.Trials).
func (c *check) tune(ctx context.Context, types []string, sizes []int) (out []tuning, err error) {
	var wrong []string
	model, side := "resnet18", 32
	if c.quick {
		model, side, sizes = "cnn", 8, []int{4}
	}
	for _, n := range sizes {
		for _, typ := range types {
			left := min(tuneLimit, remaining(ctx)) - tuneEnd
			if !c.has(typ) || left < tuneEnd/2 {
				continue // no time: its kernels take the planner's guesses
			}
			t := c.tuneOne(ctx, tuneSpec{Model: model, Side: side, Type: typ, Batch: n, Seconds: left.Seconds()})
			out = append(out, t)
			if t.Error != "" {
				wrong = append(wrong, t.Error)
			}
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

func (c *check) tuneOne(ctx context.Context, s tuneSpec) (t tuning) {
	arg, err := json.Marshal(s)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Seconds*1e9)+tuneEnd)
		defer cancel()
		err = c.piece(ctx, &t, "tune", string(arg))
	}
	t.Spec = s
	if err != nil {
		t.Error = err.Error()
	}
	return t
}

// tuneRows writes how much the tuning gained, and which variants were wrong.
func (tab table) tuneRows() {
	first, _ := tab.value("tune-first").([]tuning)
	rest, _ := tab.value("tune").([]tuning)
	for _, v := range slices.Concat(first, rest) {
		best, planned, other := 0.0, 0.0, 0
		for _, k := range v.Kernels {
			best, planned = best+k.Micro, planned+k.Planned
			if k.Variant != k.First {
				other++
			}
		}
		if best > 0 {
			tab.row("tune", "%s batch %d: %d kernels in %.0f s, %d not as planned: %s for %s; %d untuned",
				v.Spec.Type, v.Spec.Batch, len(v.Kernels), v.Seconds, other, units.Prose.Time(int64(1e3*best)), units.Prose.Time(int64(1e3*planned)), v.Untuned)
		}
		for _, n := range append(slices.Clone(v.Notes), v.Error) {
			if n != "" {
				tab.row("", "%s", result{Why: n}.short())
			}
		}
	}
}
