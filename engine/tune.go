package engine

import (
	"context"
	"fmt"
	"time"

	"dev.gpustall/engine/device"
)

// liveTune bounds the tuning that a knob change may need while the run waits.
const liveTune = 15 * time.Second

// useTuned has later plans take the variants that tuning decided on, or not.
func (p *planner) useTuned(on bool) {
	if t, ok := p.e.dev.(device.Tuner); ok {
		t.UseTuned(on)
	}
}

// untuned reports whether the plans of d have kernels whose variant is not decided.
func (p *planner) untuned(d demand) bool {
	t, ok := p.e.dev.(device.Tuner)
	return ok && p.e.cfg.TuneLimit > 0 && t.Untuned(d.full) > 0
}

// tuneFirst tunes before the run, where a person is told how far it is.
func (p *planner) tuneFirst(d demand) error {
	ctx := p.e.cfg.Start
	if ctx == nil {
		ctx = context.Background()
	}
	var progress func(done, total int)
	if f := p.e.cfg.Progress; f != nil {
		progress = func(done, total int) { f("trying kernels on "+p.e.info.Name+" (once)", done, total) }
	}
	if err := p.tune(ctx, d, p.e.cfg.TuneLimit, progress); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("try the kernels on %s: %w", p.e.info.Name, err)
	}
	return nil
}

// tuneLive tunes while the run waits: the notes tell.
func (p *planner) tuneLive(d demand) error {
	limit := min(liveTune, p.e.cfg.TuneLimit)
	p.e.rec.Note("info", fmt.Sprintf("autotune: trying %d kernels, for %s at the most", p.e.dev.(device.Tuner).Untuned(d.full), limit))
	return p.tune(context.Background(), d, limit, nil)
}

// tune has the device try the variants of the full batch's kernels, in the memory
// that the plan is about to take. After an error the device is of no further use.
func (p *planner) tune(ctx context.Context, d demand, limit time.Duration, progress func(done, total int)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := p.e.dev.(device.Tuner)
	start, before := time.Now(), len(t.Tuned())
	notes, err := t.Tune(ctx, d.full, progress)
	for _, n := range notes {
		p.e.rec.Note("warn", n)
	}
	if err != nil {
		p.broken = true
		return err
	}
	if text := tuningGain(t.Tuned()[min(before, len(t.Tuned())):]); text != "" {
		p.e.rec.Note("info", fmt.Sprintf("autotune: %s, in %s", text, time.Since(start).Round(100*time.Millisecond)))
	}
	return nil
}

// tuningGain says in words what decisions bought, by the kernels' times alone.
func tuningGain(ts []device.Tuned) string {
	var first, now time.Duration
	tried, changed := 0, 0
	for _, t := range ts {
		if t.Cached || t.FirstTime == 0 {
			continue
		}
		tried++
		first, now = first+t.FirstTime, now+t.Time
		if t.Variant != t.First {
			changed++
		}
	}
	if tried == 0 {
		return ""
	}
	return fmt.Sprintf("%d kernels tried, %d take another variant than the planner's, which saves %.0f %% of their time",
		tried, changed, 100*float64(first-now)/float64(max(first, 1)))
}

// Tuned lists the decisions between kernel variants, where the device makes any.
// It belongs to the step loop's goroutine, or to anyone once Run has returned.
func (e *Engine) Tuned() []device.Tuned {
	if t, ok := e.dev.(device.Tuner); ok {
		return t.Tuned()
	}
	return nil
}
