package plan

import (
	"context"
	"fmt"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
)

// useTuned has later plans take the variants that tuning decided on, or not.
func (p *Plans) useTuned(on bool) {
	if p.tuner != nil {
		p.tuner.UseTuned(on)
	}
}

// untuned is the number of kernels in the plans of d whose variant is not decided.
func (p *Plans) untuned(d demand) int {
	if p.tuner == nil || p.cfg.TuneLimit == 0 {
		return 0
	}
	return p.tuner.Untuned(d.full)
}

// sayUntuned says that knobs changed to what was never tried. Trying would stop the
// run and take memory from it.
func (p *Plans) sayUntuned(d demand) {
	if n := p.untuned(d); n > 0 {
		p.rec.Note("warn", fmt.Sprintf("autotune: %d kernels of these settings were never tried on this GPU and take the planner's guess; a run that starts with them tries them", n))
	}
}

// tune has the device try the variants of the full batch's kernels before the run,
// where a person is told how far it is.
func (p *Plans) tune(d demand) error {
	start := p.cfg.Start
	if start == nil {
		start = context.Background()
	}
	var progress func(done, total int)
	if f := p.cfg.Progress; f != nil {
		progress = func(done, total int) { f("trying kernels on "+p.info.Name+" (once)", done, total) }
	}
	ctx, cancel := context.WithTimeout(start, p.cfg.TuneLimit)
	defer cancel()
	began, before := time.Now(), len(p.tuner.Tuned())
	for _, n := range p.tuner.Tune(ctx, d.full, progress) {
		p.rec.Note("warn", n)
	}
	tuned := p.tuner.Tuned()
	if text := tuningGain(tuned[min(before, len(tuned)):]); text != "" {
		p.rec.Note("info", fmt.Sprintf("autotune: %s, in %s", text, time.Since(began).Round(100*time.Millisecond)))
	}
	return errs.Wrap(start.Err(), "try", "the kernels on "+p.info.Name, "run it again: it goes on from there")
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
		tried, changed, units.Prose.Percent(float64(first-now)/float64(max(first, 1))))
}

// Tuned lists the decisions between kernel variants, where the device makes any.
func (p *Plans) Tuned() []device.Tuned {
	if p.tuner == nil {
		return nil
	}
	return p.tuner.Tuned()
}
