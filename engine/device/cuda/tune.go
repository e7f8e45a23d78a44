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

// tunes reports whether variants are tried now.
func (d *Device) tunes() bool {
	return d.variants.choices != nil && !d.guess && (!d.info.Emulated || d.tuneEmulated)
}

// UseTuned says whether later programs take the variants decided on.
func (d *Device) UseTuned(on bool) { d.guess = !on }

// usable are the variants of op that were not found wrong, the likeliest first: the
// first of them is what the others are compared with.
func (d *Device) usable(op kernels.Op) []string {
	configs := cudakernels.Configs(op, d.target)
	if len(configs) < 2 {
		return configs
	}
	left := slices.DeleteFunc(slices.Clone(configs), func(config string) bool {
		return d.variants.isWrong(d.variants.mark(op, d.target, config))
	})
	if len(left) == 0 {
		return configs[:1]
	}
	return left
}

// choose returns the variant of l to run: the one decided on, or the likeliest. A
// device whose caller never tunes by itself does so here.
func (d *Device) choose(op kernels.Op, layer string) (string, error) {
	if d.pick != nil {
		return d.pick(op), nil
	}
	if !d.tunes() || len(cudakernels.Configs(op, d.target)) < 2 {
		return "", nil
	}
	t := d.known(op, layer)
	if t == nil && !d.ahead {
		var err error
		if t, err = d.decide(context.Background(), op, layer, d.mem.alloc); err != nil && !errors.Is(err, errNoRoom) {
			return "", err
		}
	}
	if t == nil {
		return d.usable(op)[0], nil
	}
	return t.Variant, nil
}

// untuned are the operations in ls, each once, that have variants and no decision.
func (d *Device) untuned(ls []device.Launch) (out []device.Launch) {
	if !d.tunes() {
		return nil
	}
	seen := map[string]bool{}
	for _, l := range ls {
		op, ok := l.Op.(kernels.Op)
		if !ok {
			continue
		}
		if len(cudakernels.Configs(op, d.target)) < 2 {
			continue
		}
		if key := d.variants.key(op, d.target); !seen[key] && d.known(op, l.Layer) == nil {
			seen[key] = true
			out = append(out, l)
		}
	}
	return out
}

// Untuned is the number of operations in ls whose variant is not decided yet.
func (d *Device) Untuned(ls []device.Launch) int { return len(d.untuned(ls)) }

// Tune tries the variants of the operations in ls that are not decided, in memory
// that is not handed out now. From the first Tune on, Prepare tries nothing itself.
func (d *Device) Tune(ctx context.Context, ls []device.Launch, progress func(done, total int)) (notes []string, err error) {
	if d.closed {
		return nil, errClosed
	}
	d.ahead = true
	start := time.Now()
	var c tally
	all := d.untuned(ls)
	for todo := all; len(todo) > 0 && ctx.Err() == nil; todo = d.untuned(ls) { // again for what took a variant that was found wrong later
		if err := d.tuneEach(ctx, todo, &c, progress); err != nil {
			return d.takeNotes(), err
		}
	}
	notes = d.takeNotes()
	if len(all) == 0 {
		return notes, nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && c.tried < len(all) {
		notes = append(notes, fmt.Sprintf("autotune: stopped after %s with %d of %d kernels tried: the others take the planner's guess, and the next run goes on",
			time.Since(start).Round(time.Second), c.tried, len(all)))
	}
	if c.roomless > 0 {
		notes = append(notes, fmt.Sprintf("autotune: %d of %d kernels take the planner's guess, because the memory left is too little to try them in; lower batch_size to tune them",
			c.roomless, len(all)))
	}
	return notes, nil
}

// tally counts operations: decided on, and among them those without room to be tried.
type tally struct{ tried, roomless int }

// tuneEach decides on each of ls, until ctx is done.
func (d *Device) tuneEach(ctx context.Context, ls []device.Launch, c *tally, progress func(done, total int)) error {
	for i, l := range ls {
		if progress != nil {
			progress(i, len(ls))
		}
		op := l.Op.(kernels.Op)
		switch _, err := d.decide(ctx, op, l.Layer, d.mem.reservedAlloc); {
		case errors.Is(err, errNoRoom):
			c.roomless++
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil
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

// takeNotes tells of each variant that was found wrong, once.
func (d *Device) takeNotes() (notes []string) {
	for _, mark := range d.variants.told {
		notes = append(notes, "autotune: "+mark+" is not used: "+d.variants.wrong[mark])
	}
	d.variants.told = nil
	return notes
}

// decide tries each variant of op: what the first one computes is right, and of
// those that agree with it the fastest is taken. An error other than errNoRoom and
// ctx's leaves the device unusable.
func (d *Device) decide(ctx context.Context, op kernels.Op, layer string, alloc func(int64) (*block, error)) (*device.Tuned, error) {
	v, configs := d.variants, d.usable(op)
	t := &device.Tuned{Layer: layer, Op: op.Name(), Variant: configs[0], First: configs[0]}
	r, err := d.newTrial(op, alloc)
	if errors.Is(err, errNoRoom) {
		v.decide(v.key(op, d.target), t) // for this run
		return t, err
	}
	if err != nil {
		return nil, fmt.Errorf("cuda device: autotune %s: %w", op.Name(), err)
	}
	defer r.free()
	for i, config := range configs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		mark := v.mark(op, d.target, config)
		if i > 0 {
			v.trying(mark)
		}
		took, err := r.run(config, i == 0)
		switch {
		case err == nil && i == 0:
			t.Time, t.FirstTime = took, took
		case err == nil:
			if took < t.Time {
				t.Variant, t.Time = config, took
			}
		case d.drain() != nil:
			// The context is gone, and the mark stays for the next start.
			what := "broke the GPU's context"
			if errors.Is(err, errHung) {
				what = "hangs"
			}
			return nil, fmt.Errorf("cuda device: autotune: variant %s of %s %s: start again, and it is left out: %w", config, op.Name(), what, err)
		case i == 0:
			return nil, fmt.Errorf("cuda device: autotune: %s, the planner's variant %s: %w", op.Name(), config, err)
		default:
			v.condemn(mark, err.Error())
			v.told = append(v.told, mark)
		}
		if i > 0 {
			v.tried()
		}
	}
	key := v.key(op, d.target)
	v.decide(key, t)
	v.choices.Set(key, encode(t))
	return t, nil
}
