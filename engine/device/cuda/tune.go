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

// tuner chooses between the variants of kernels, and has them tried. The device owns it.
type tuner struct {
	target    cudakernels.Target
	variants  *variants
	note      string                  // why no variants are tried; empty where they are
	guess     bool                    // take the planner's guesses: UseTuned(false)
	tester    *tester                 // while Tune runs, once it was needed
	newTester func() (*tester, error) // nil: nothing can be tried
	patience  time.Duration           // with a launch of a variant that is tried

	pick func(op kernels.Op) string // tests: overrides the choice
}

func (t *tuner) open(c Config, info device.Info, target cudakernels.Target) {
	t.target, t.patience = target, patience(info.Emulated)
	if c.Trials != nil {
		t.newTester = func() (*tester, error) { return startTester(c.Trials(), greeting{c.Ordinal, t.patience}) }
	}
	t.variants = newVariants(c.Choices, fmt.Sprintf("%s, sm_%d, driver %s", info.Name, target.SM, driverVersion(info.Emulated)))
	switch {
	case c.Choices == nil:
		t.note = "no variants are tried: there is no store of what trials found"
	case info.Emulated && !c.TuneEmulated:
		t.note = "no variants are tried: the emulated driver's times say nothing about a GPU"
	}
}

// patience returns how long a launch of a variant that is tried may take.
func patience(emulated bool) time.Duration {
	if emulated {
		return 10 * time.Minute
	}
	return 10 * time.Second
}

// tunes reports whether variants are chosen by what trials found.
func (t *tuner) tunes() bool { return t.note == "" && !t.guess }

// UseTuned says whether later programs take the variants decided on.
func (d *Device) UseTuned(on bool) { d.tuner.guess = !on }

// Untuned returns the number of operations in ls whose variant is not decided yet.
func (d *Device) Untuned(ls []device.Launch) int { return len(d.tuner.untuned(ls)) }

// Tune tries the variants of the operations in ls that are not decided, in another
// process, which needs memory of its own.
func (d *Device) Tune(ctx context.Context, ls []device.Launch, progress func(done, total int)) (notes []string) {
	if d.closed {
		return nil
	}
	return d.tuner.tune(ctx, ls, progress)
}

// Tuned lists the decisions so far.
func (d *Device) Tuned() []device.Tuned { return d.tuner.variants.tuned() }

// usable returns the variants of op that were not found wrong, the likeliest first. The others are
// compared with the first. Of a family that is not used the planner's guess stays usable, until it
// is found wrong itself.
func (t *tuner) usable(op kernels.Op) []string {
	configs := cudakernels.Configs(op, t.target)
	if len(configs) < 2 {
		return configs
	}
	left := make([]string, 0, len(configs))
	for i, config := range configs {
		if _, fallen := t.variants.fallen[cudakernels.Family(config)]; fallen && i > 0 {
			continue
		}
		if !t.variants.isWrong(t.variants.mark(op, t.target, config)) {
			left = append(left, config)
		}
	}
	if len(left) == 0 {
		return configs[:1]
	}
	return left
}

// known returns the decision on op, if there is one that still holds.
func (t *tuner) known(op kernels.Op, layer string) *device.Tuned {
	v, usable := t.variants, t.usable(op)
	key := v.key(op, t.target)
	if decided := v.decided[key]; decided != nil {
		if slices.Contains(usable, decided.Variant) {
			return decided
		}
		v.forget(key)
		return nil
	}
	text, ok := v.choices.Get(key)
	if !ok {
		return nil
	}
	variant, took, first, ok := decode(text)
	if !ok || !slices.Contains(usable, variant) {
		return nil
	}
	decided := &device.Tuned{Layer: layer, Op: op.Name(), Variant: variant, First: usable[0], Time: took, FirstTime: first, Cached: true}
	v.decide(key, decided)
	return decided
}

// choose returns the variant of op to run: the one decided on, or the likeliest.
// Nothing is tried here.
func (t *tuner) choose(op kernels.Op, layer string) string {
	switch {
	case t.pick != nil:
		return t.pick(op)
	case !t.tunes() || len(cudakernels.Configs(op, t.target)) < 2:
		return ""
	}
	if known := t.known(op, layer); known != nil {
		return known.Variant
	}
	return t.usable(op)[0]
}

// untuned returns the operations in ls, each once, that have several usable variants and no
// decision.
func (t *tuner) untuned(ls []device.Launch) (out []device.Launch) {
	if !t.tunes() {
		return nil
	}
	seen := map[string]bool{}
	for _, l := range ls {
		op, ok := l.Op.(kernels.Op)
		if !ok || len(cudakernels.Configs(op, t.target)) < 2 {
			continue
		}
		if key := t.variants.key(op, t.target); !seen[key] && t.known(op, l.Layer) == nil && len(t.usable(op)) > 1 {
			seen[key] = true
			out = append(out, l)
		}
	}
	return out
}

// tune is Device.Tune.
func (t *tuner) tune(ctx context.Context, ls []device.Launch, progress func(done, total int)) (notes []string) {
	if t.newTester == nil {
		return nil
	}
	defer t.endTester()
	start := time.Now()
	var c tally
	var err error
	all := t.untuned(ls)
	for todo := all; len(todo) > 0 && err == nil; todo = t.untuned(ls) { // again for what took a variant that was found wrong later
		err = t.tuneEach(ctx, todo, &c, progress)
	}
	notes, t.variants.told = t.variants.told, nil
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
func (t *tuner) tuneEach(ctx context.Context, ls []device.Launch, c *tally, progress func(done, total int)) error {
	for i, l := range ls {
		if progress != nil {
			progress(i, len(ls))
		}
		switch err := t.decide(ctx, l.Op.(kernels.Op), l.Layer); {
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

// decide has each variant of op tried. It counts the first one's results as right and takes the
// fastest of the variants that agree. Where a variant ends the tester, its family is not used any
// more, and another tester tries the rest.
func (t *tuner) decide(ctx context.Context, op kernels.Op, layer string) error {
	v, tried := t.variants, map[string]device.Tried{}
	for {
		configs := t.usable(op)
		var left []string
		for _, c := range configs {
			if _, ok := tried[c]; !ok {
				left = append(left, c)
			}
		}
		if len(configs) == 1 || len(left) == 0 {
			t.settle(op, layer, configs, tried)
			return nil
		}
		if left[0] != configs[0] { // the rest is compared with the first
			left = append([]string{configs[0]}, left...)
		}
		tester, err := t.testing(ctx)
		if err != nil {
			return err
		}
		// A module that is not in the driver's cache is compiled before a launch.
		err = tester.try(ctx, question{op, left}, 4*t.patience, func(a answer) {
			tried[a.Config] = device.Tried{Variant: a.Config, Time: a.Time, Why: a.Why}
			if a.Why != "" {
				t.blame(op, a)
			}
		})
		if errors.Is(err, errNoRoom) { // decided for this run only
			v.decide(v.key(op, t.target), &device.Tuned{Layer: layer, Op: op.Name(), Variant: configs[0], First: configs[0]})
		}
		if err != nil {
			return err
		}
	}
}

// blame condemns a variant, with its family when it ended the tester.
func (t *tuner) blame(op kernels.Op, a answer) {
	v, name := t.variants, variantName(op, a.Config)
	v.condemn(v.mark(op, t.target, a.Config), a.Why)
	if !a.Broken {
		v.told = append(v.told, fmt.Sprintf("autotune: %s is not used on %s: %s", name, v.gpu, a.Why))
		return
	}
	t.endTester()
	family, why := cudakernels.Family(a.Config), name+" "+a.Why
	v.fell(family, why)
	v.told = append(v.told, fmt.Sprintf("autotune: %s kernels are left out on %s, because %s; --autotune again tries them anew", family, v.gpu, why))
}

// settle takes the fastest of the variants that are usable and were tried.
func (t *tuner) settle(op kernels.Op, layer string, configs []string, tried map[string]device.Tried) {
	first := tried[configs[0]].Time
	taken := &device.Tuned{Layer: layer, Op: op.Name(), Variant: configs[0], First: configs[0], Time: first, FirstTime: first}
	for _, c := range cudakernels.Configs(op, t.target) {
		r, ok := tried[c]
		if !ok {
			continue
		}
		taken.Tried = append(taken.Tried, r)
		if slices.Contains(configs, c) && r.Time < taken.Time {
			taken.Variant, taken.Time = c, r.Time
		}
	}
	key := t.variants.key(op, t.target)
	t.variants.decide(key, taken)
	if len(tried) > 0 {
		t.variants.choices.Set(key, encode(taken))
	}
}

// testing returns the tester that runs, or a new one.
func (t *tuner) testing(ctx context.Context) (*tester, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t.tester == nil {
		made, err := t.newTester()
		if err != nil {
			return nil, err
		}
		t.tester = made
	}
	return t.tester, nil
}

func (t *tuner) endTester() {
	if t.tester != nil {
		_ = t.tester.end() // its answers told what it broke
		t.tester = nil
	}
}
