//go:build cuda && cgo && linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// tunes reports whether variants are chosen by what trials found.
func (d *Device) tunes() bool {
	return d.variants.choices != nil && !d.guess && (!d.info.Emulated || d.tuneEmulated)
}

// UseTuned says whether later programs take the variants decided on.
func (d *Device) UseTuned(on bool) { d.guess = !on }

// usable are the variants of op that were not found wrong, the likeliest first: the
// first of them is what the others are compared with. Of a family that fell the
// planner's guess stays, until it is wrong itself.
func (d *Device) usable(op kernels.Op) []string {
	configs := cudakernels.Configs(op, d.target)
	if len(configs) < 2 {
		return configs
	}
	left := make([]string, 0, len(configs))
	for i, config := range configs {
		if _, fallen := d.variants.fallen[cudakernels.Family(config)]; fallen && i > 0 {
			continue
		}
		if !d.variants.isWrong(d.variants.mark(op, d.target, config)) {
			left = append(left, config)
		}
	}
	if len(left) == 0 {
		return configs[:1]
	}
	return left
}

// choose returns the variant of op to run: the one decided on, or the likeliest.
// Nothing is tried here.
func (d *Device) choose(op kernels.Op, layer string) string {
	switch {
	case d.pick != nil:
		return d.pick(op)
	case !d.tunes() || len(cudakernels.Configs(op, d.target)) < 2:
		return ""
	}
	if t := d.known(op, layer); t != nil {
		return t.Variant
	}
	return d.usable(op)[0]
}

// untuned are the operations in ls, each once, that have several variants to choose
// from and no decision.
func (d *Device) untuned(ls []device.Launch) (out []device.Launch) {
	if !d.tunes() {
		return nil
	}
	seen := map[string]bool{}
	for _, l := range ls {
		op, ok := l.Op.(kernels.Op)
		if !ok || len(cudakernels.Configs(op, d.target)) < 2 {
			continue
		}
		if key := d.variants.key(op, d.target); !seen[key] && d.known(op, l.Layer) == nil && len(d.usable(op)) > 1 {
			seen[key] = true
			out = append(out, l)
		}
	}
	return out
}

// Untuned is the number of operations in ls whose variant is not decided yet.
func (d *Device) Untuned(ls []device.Launch) int { return len(d.untuned(ls)) }

// Tune tries the variants of the operations in ls that are not decided, in another
// process, which needs memory of its own.
func (d *Device) Tune(ctx context.Context, ls []device.Launch, progress func(done, total int)) (notes []string) {
	if d.closed || d.newTester == nil {
		return nil
	}
	defer d.endTester()
	start := time.Now()
	var c tally
	var err error
	all := d.untuned(ls)
	for todo := all; len(todo) > 0 && err == nil; todo = d.untuned(ls) { // again for what took a variant that was found wrong later
		err = d.tuneEach(ctx, todo, &c, progress)
	}
	notes, d.variants.told = d.variants.told, nil
	const guess = "take the planner's guess"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		notes = append(notes, fmt.Sprintf("autotune: stopped after %s with %d of %d kernels tried: the others %s, and the next run goes on",
			time.Since(start).Round(time.Second), c.tried, len(all), guess))
	case errors.Is(err, errTester):
		notes = append(notes, fmt.Sprintf("autotune: %d of %d kernels %s: %v", len(all)-c.tried, len(all), guess, err))
	}
	if c.roomless > 0 {
		notes = append(notes, fmt.Sprintf("autotune: %d of %d kernels %s, because the memory left is too little to try them in; lower batch_size to tune them",
			c.roomless, len(all), guess))
	}
	return notes
}

// tally counts operations: decided on, and among them those without room to be tried.
type tally struct{ tried, roomless int }

// tuneEach decides on each of ls, until ctx is done.
func (d *Device) tuneEach(ctx context.Context, ls []device.Launch, c *tally, progress func(done, total int)) error {
	for i, l := range ls {
		if progress != nil {
			progress(i, len(ls))
		}
		switch err := d.decide(ctx, l.Op.(kernels.Op), l.Layer); {
		case errors.Is(err, errNoRoom):
			c.roomless++
		case err != nil:
			return err
		}
		c.tried++
	}
	if progress != nil {
		progress(len(ls), len(ls))
	}
	return nil
}

// decide has each variant of op tried: what the first one computes is right, and of
// those that agree with it the fastest is taken. A variant that ends the tester takes
// its family with it, and another tester goes on with the rest.
func (d *Device) decide(ctx context.Context, op kernels.Op, layer string) error {
	v, tried := d.variants, map[string]device.Tried{}
	for {
		configs := d.usable(op)
		var left []string
		for _, c := range configs {
			if _, ok := tried[c]; !ok {
				left = append(left, c)
			}
		}
		if len(configs) == 1 || len(left) == 0 {
			d.settle(op, layer, configs, tried)
			return nil
		}
		if left[0] != configs[0] { // what the rest is compared with
			left = append([]string{configs[0]}, left...)
		}
		t, err := d.testing(ctx)
		if err != nil {
			return err
		}
		// A module that is not in the driver's cache is compiled before a launch.
		err = t.try(ctx, question{op, left}, 4*d.patience, func(a answer) {
			tried[a.Config] = device.Tried{Variant: a.Config, Time: a.Time, Why: a.Why}
			if a.Why != "" {
				d.blame(op, a)
			}
		})
		if errors.Is(err, errNoRoom) { // for this run
			v.decide(v.key(op, d.target), &device.Tuned{Layer: layer, Op: op.Name(), Variant: configs[0], First: configs[0]})
		}
		if err != nil {
			return err
		}
	}
}

// blame condemns a variant, with its family when it ended the tester.
func (d *Device) blame(op kernels.Op, a answer) {
	v, name := d.variants, variantName(op, a.Config)
	v.condemn(v.mark(op, d.target, a.Config), a.Why)
	if !a.Broken {
		v.told = append(v.told, fmt.Sprintf("autotune: %s is not used on %s: %s", name, v.gpu, a.Why))
		return
	}
	d.endTester()
	family, why := cudakernels.Family(a.Config), name+" "+a.Why
	v.fell(family, why)
	v.told = append(v.told, fmt.Sprintf("autotune: %s kernels are left out on %s, because %s; --autotune again tries them anew", family, v.gpu, why))
}

// settle takes the fastest of the variants that are usable and were tried.
func (d *Device) settle(op kernels.Op, layer string, configs []string, tried map[string]device.Tried) {
	first := tried[configs[0]].Time
	t := &device.Tuned{Layer: layer, Op: op.Name(), Variant: configs[0], First: configs[0], Time: first, FirstTime: first}
	for _, c := range cudakernels.Configs(op, d.target) {
		r, ok := tried[c]
		if !ok {
			continue
		}
		t.Tried = append(t.Tried, r)
		if slices.Contains(configs, c) && r.Time < t.Time {
			t.Variant, t.Time = c, r.Time
		}
	}
	key := d.variants.key(op, d.target)
	d.variants.decide(key, t)
	if len(tried) > 0 {
		d.variants.choices.Set(key, encode(t))
	}
}

// testing is the tester that lives, or a new one.
func (d *Device) testing(ctx context.Context) (t *tester, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.tester == nil {
		if t, err = d.newTester(); err != nil {
			return nil, err
		}
		d.tester = t
	}
	return d.tester, nil
}

func (d *Device) endTester() {
	if d.tester != nil {
		_ = d.tester.end() // what it broke was told
		d.tester = nil
	}
}
