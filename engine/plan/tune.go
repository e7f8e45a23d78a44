package plan

import (
	"context"
	"fmt"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/fault"
	"dev.gpustall/engine/figures"
)

// liveTune bounds the tuning that a knob change may need while the run waits.
const liveTune = 15 * time.Second

// useTuned has later plans take the variants that tuning decided on, or not.
func (p *Plans) useTuned(on bool) {
	if p.tuner != nil {
		p.tuner.UseTuned(on)
	}
}

// untuned reports whether the plans of d have kernels whose variant is not decided.
func (p *Plans) untuned(d demand) bool {
	return p.tuner != nil && p.cfg.TuneLimit > 0 && p.tuner.Untuned(d.full) > 0
}

// tuneFirst tunes before the run, where a person is told how far it is.
func (p *Plans) tuneFirst(d demand) error {
	ctx := p.cfg.Start
	if ctx == nil {
		ctx = context.Background()
	}
	var progress func(done, total int)
	if f := p.cfg.Progress; f != nil {
		progress = func(done, total int) { f("trying kernels on "+p.info.Name+" (once)", done, total) }
	}
	if err := p.tune(ctx, d, p.cfg.TuneLimit, progress); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fault.Wrap(err, "try", "the kernels on "+p.info.Name, "run it again: it goes on from there")
	}
	return nil
}

// tuneLive tunes while the run waits, in the memory of the plans there are, which it
// frees; notes say so. It returns the demand for at least as much memory as there was.
func (p *Plans) tuneLive(d demand) (demand, error) {
	d.input, d.activations = max(d.input, p.inputs[0].Size), max(d.activations, p.activationBytes())
	p.freeAll()
	limit := min(liveTune, p.cfg.TuneLimit)
	p.rec.Note("info", fmt.Sprintf("autotune: trying %d kernels, for %s at the most", p.tuner.Untuned(d.full), limit))
	return d, p.tune(context.Background(), d, limit, nil)
}

// tune has the device try the variants of the full batch's kernels, in the memory
// that the plan is about to take. After an error the device is of no further use.
func (p *Plans) tune(ctx context.Context, d demand, limit time.Duration, progress func(done, total int)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start, before := time.Now(), len(p.tuner.Tuned())
	notes, err := p.tuner.Tune(ctx, d.full, progress)
	for _, n := range notes {
		p.rec.Note("warn", n)
	}
	if err != nil {
		p.broken = true
		return err
	}
	tuned := p.tuner.Tuned()
	if text := tuningGain(tuned[min(before, len(tuned)):]); text != "" {
		p.rec.Note("info", fmt.Sprintf("autotune: %s, in %s", text, time.Since(start).Round(100*time.Millisecond)))
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
	return fmt.Sprintf("%d kernels tried, %d take another variant than the planner's, which saves %s of their time",
		tried, changed, figures.Prose.Percent(float64(first-now)/float64(max(first, 1))))
}

// Tuned lists the decisions between kernel variants, where the device makes any.
func (p *Plans) Tuned() []device.Tuned {
	if p.tuner == nil {
		return nil
	}
	return p.tuner.Tuned()
}
