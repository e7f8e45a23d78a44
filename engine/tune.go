package engine

import (
	"context"
	"fmt"
	"time"

	"dev.gpustall/engine/device"
)

// liveTune bounds the tuning that a knob change may need while the run waits.
const liveTune = 15 * time.Second

// untuned reports whether the plans of d have kernels whose variant is not decided.
func (p *planner) untuned(d demand) bool {
	t, ok := p.e.dev.(device.Tuner)
	return ok && p.e.cfg.TuneLimit > 0 && t.Untuned(d.full) > 0
}

// tune has the device try the variants of the full batch's kernels, in the memory
// that the plan is about to take. After an error the device is of no further use.
func (p *planner) tune(ctx context.Context, d demand, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := p.e.dev.(device.Tuner)
	var progress func(done, total int)
	if f := p.e.cfg.Progress; f != nil {
		progress = func(done, total int) { f("trying kernels on "+p.e.info.Name+" (once)", done, total) }
	}
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
