package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"dev.gpustall/engine/base/knob"
)

// parts returns all parts, the most important first, since time may run out.
func parts() []part {
	train := func(typ string) part {
		return part{"train-" + typ, 90 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.train(ctx, typ) }}
	}
	torch := func(mode string, limit time.Duration) part {
		return part{"torch-" + mode, limit, func(ctx context.Context, c *check) (any, error) { return c.torchRun(ctx, mode) }}
	}
	return []part{
		{"device", 45 * time.Second, checkDevice},
		{"probe", 45 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.probe(ctx) }},
		{"tune-first", 45 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.tuneFirst(ctx) }},
		{"compile", 100 * time.Second, checkCompile},
		tests("contract", 60*time.Second, "cuda.test", "-test.run=^TestDevice$/^contract$"),
		tests("kernels", 90*time.Second, "cuda.test", "-test.run=^TestDevice$/^(op|gradient)$"),
		{"tune", 120 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.tuneAll(ctx) }},
		train("fp32"),
		train("bf16"),
		{"precision", time.Second, func(_ context.Context, c *check) (any, error) { return c.precision() }},
		{"copies", 30 * time.Second, func(ctx context.Context, c *check) (any, error) {
			var v []copyRate
			return pieceOf(ctx, c, &v, "copies")
		}},
		{"launches", 20 * time.Second, func(ctx context.Context, c *check) (any, error) {
			var v []launchCost
			return pieceOf(ctx, c, &v, "launches")
		}},
		{"ops", 160 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.ops(ctx) }},
		{"end-to-end", 120 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.endToEnd(ctx, 0) }},
		{"starved", 120 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.endToEnd(ctx, 0.5) }},
		{"fence", 45 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.fence(ctx) }},
		{"occupancy", 30 * time.Second, func(ctx context.Context, c *check) (any, error) {
			var v []occupied
			return pieceOf(ctx, c, &v, "occupancy")
		}},
		{"train-224", 60 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.train224(ctx) }},
		{"torch", 60 * time.Second, checkTorch},
		torch("matmul", 45*time.Second),
		torch("eager", 60*time.Second),
		torch("compile", 150*time.Second),
		torch("reduce-overhead", 150*time.Second),
		torch("end-to-end", 60*time.Second),
		train("tf32"),
		train("fp16"),
		tests("follows-cpu", 90*time.Second, "cuda.test", "-test.run=^TestTrainingFollowsCPU$"),
		tests("device-rest", 60*time.Second, "cuda.test", "-test.skip=^(TestDevice|TestVariants|TestTrainingFollowsCPU)$"),
		tests("driver", 30*time.Second, "driver.test"),
		{"ncu", 90 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.ncu(ctx) }},
		{"sanitizer", 90 * time.Second, func(ctx context.Context, c *check) (any, error) { return c.sanitizer(ctx) }},
		tests("variants", 120*time.Second, "cuda.test", "-test.run=^TestVariants$"),
	}
}

// compiles is the kernels' preparation, twice. The second time the driver finds the compiled kernels
// in its cache.
type compiles struct {
	First []compiled `json:"first"`
	Again []compiled `json:"again"`
}

// checkCompile has the driver compile the kernels with an empty cache.
func checkCompile(ctx context.Context, c *check) (any, error) {
	var v compiles
	c.cache = "compile-cache"
	defer func() { c.cache = "" }()
	if err := os.MkdirAll(filepath.Join(c.tmp, c.cache), 0o700); err != nil {
		return nil, fmt.Errorf("make a driver's cache: %w", err)
	}
	if _, err := pieceOf(ctx, c, &v.First, "compile"); err != nil {
		return v, err
	}
	_, err := pieceOf(ctx, c, &v.Again, "compile")
	return v, err
}

func total(v []compiled) (s float64) {
	for _, t := range v {
		s += t.Seconds
	}
	return s
}

// pieceOf runs a piece and returns what it measured.
func pieceOf[T any](ctx context.Context, c *check, v *T, name string) (any, error) {
	var args []string
	if c.quick {
		args = []string{"quick"}
	}
	if err := c.piece(ctx, v, name, args...); err != nil {
		return nil, err
	}
	return *v, nil
}

// train checks and measures training in one type.
func (c *check) train(ctx context.Context, typ string) (any, error) {
	if !c.has(typ) {
		return nil, skip("the device has no " + typ)
	}
	s := c.trainSpec(typ)
	if typ == "fp32" {
		s.CPU, s.CPUSize = 4, 16
		if c.quick {
			s.CPU, s.CPUSize = 3, 4
		}
	}
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var t training
	err = c.piece(ctx, &t, "train", string(arg))
	if len(t.Losses) == 0 && err != nil {
		return nil, err
	}
	c.runs[typ] = &t // results before an error count
	return t, errors.Join(err, t.verdict())
}

// trainSpec returns the training that is done in each type.
func (c *check) trainSpec(typ string) trainSpec {
	if !c.quick {
		return trainSpec{Model: "resnet18", Side: 32, Type: typ, Batch: 128, Steps: 300, Contrast: 0.15, Rates: []int{128, 1024}, Seconds: 2}
	}
	s := trainSpec{Model: "resnet18", Side: 8, Type: typ, Batch: 4, Steps: 3, Contrast: 1, Rates: []int{4}}
	if c.facts.Emulated {
		s.Model = "cnn" // resnet18 takes minutes on the CPU
	}
	return s
}

// batch224 is that of pictures of ImageNet's size.
const batch224 = 128

// train224 measures training on pictures of ImageNet's size.
func (c *check) train224(ctx context.Context) (any, error) {
	if !c.has("bf16") {
		return nil, skip("the device has no bf16")
	}
	s := c.trainSpec("bf16")
	s.Steps = 0
	if !c.quick {
		s.Side, s.Batch, s.Rates = 224, batch224, []int{batch224}
	}
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var t training
	if err := c.piece(ctx, &t, "train", string(arg)); err != nil {
		return nil, err
	}
	return t, t.verdict()
}

func (f *findings) has(typ string) bool {
	for _, t := range f.facts.Types {
		if t == typ {
			return true
		}
	}
	return false
}

// The tolerances of the loss checks; docs/guide/gpu.md states them.
const (
	judged        = 100  // the least steps of a curve that must fall
	falls         = 0.5  // the last tenth's mean loss over the first step's, at most
	firstStep     = 0.02 // a type's first loss beside fp32's, relative: same weights, same batch
	lastQuarter   = 0.1  // a type's mean loss over the last quarter beside fp32's, as a share of fp32's first loss
	captureFirst  = 1e-3 // the first loss of a replayed graph beside that of launches, relative
	captureFollow = 0.1  // their last quarters, as lastQuarter
)

// verdict returns what is wrong with the losses, or nil.
func (t *training) verdict() error {
	var errs []error
	for _, curve := range []struct {
		name string
		l    []float64
	}{{"", t.Losses}, {" with capture", t.Captured}} {
		if n := len(curve.l); n >= judged {
			if first, last := curve.l[0], mean(curve.l[n-n/10:]); last > falls*first {
				errs = append(errs, fmt.Errorf("the loss does not fall%s: %.3f at first, %.3f over the last tenth of %d steps", curve.name, first, last, n))
			}
		}
	}
	if len(t.Captured) > 0 {
		if err := follows(t.Captured, t.Losses, captureFirst, captureFollow); err != nil {
			errs = append(errs, fmt.Errorf("with capture: %w", err))
		}
	}
	if c := t.CPU; c != nil {
		for i, v := range c.Losses {
			if d := abs(v - c.CPU[i]); !(d <= c.Allowed[i]) {
				errs = append(errs, fmt.Errorf("step %d: loss %.6f, the cpu device has %.6f: allowed %.2g", i, v, c.CPU[i], c.Allowed[i]))
				break
			}
		}
	}
	for _, r := range t.Rates {
		if r.Error != "" {
			errs = append(errs, fmt.Errorf("batch %d, capture %s: %s", r.Batch, knob.Switch(r.Capture), r.Error))
		}
	}
	return errors.Join(errs...)
}

// follows compares a loss curve with another's from the same weights and batches.
func follows(got, want []float64, first, quarter float64) error {
	if len(got) != len(want) || len(got) == 0 {
		return fmt.Errorf("%d steps beside %d", len(got), len(want))
	}
	if d := abs(got[0] - want[0]); !(d <= first*want[0]) {
		return fmt.Errorf("first loss %.5f beside %.5f: more than %g %% off", got[0], want[0], 100*first)
	}
	n := len(got)
	if n < judged {
		return nil
	}
	g, w := mean(got[n-n/4:]), mean(want[n-n/4:])
	if d := abs(g - w); !(d <= quarter*want[0]) {
		return fmt.Errorf("the last quarter's mean loss %.4f beside %.4f: off by more than %g %% of the first loss", g, w, 100*quarter)
	}
	return nil
}

// precisionResult is how a type's losses follow fp32's.
type precisionResult struct {
	Type  string  `json:"type"`
	First float64 `json:"first_loss_off"`        // relative
	Last  float64 `json:"last_quarter_mean_off"` // in units of the loss
}

// precision compares bf16's curve with fp32's.
func (f *findings) precision() (any, error) {
	ref, got := f.runs["fp32"], f.runs["bf16"]
	if ref == nil || got == nil {
		return nil, skip("it needs the losses of train-fp32 and train-bf16")
	}
	n := len(ref.Losses)
	r := precisionResult{Type: "bf16"}
	if n == len(got.Losses) && n > 0 {
		q := n - max(1, n/4)
		r.First, r.Last = got.Losses[0]/ref.Losses[0]-1, mean(got.Losses[q:])-mean(ref.Losses[q:])
	}
	return r, follows(got.Losses, ref.Losses, firstStep, lastQuarter)
}

func mean(v []float64) float64 {
	var s float64
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

func abs(x float64) float64 { return max(x, -x) }
