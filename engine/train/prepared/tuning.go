package prepared

import (
	"context"
	"fmt"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// tuning chooses between variants of kernels, where the device has several. It belongs
// to Steps.
type tuning struct {
	tuner device.Tuner // nil when the device has one kernel for each operation
	name  string       // the device's
	task  *Task
	rec   *trace.Recorder
}

// use makes later programs take the variants that trials decided on, or not.
func (t *tuning) use(on bool) {
	if t.tuner != nil {
		t.tuner.UseTuned(on)
	}
}

// untried counts the kernels of n's full batch whose variant no trial has decided.
func (t *tuning) untried(n *need) int {
	if t.tuner == nil || t.task.TuneLimit == 0 {
		return 0
	}
	return t.tuner.Untuned(n.full)
}

// warn notes that knobs changed to kernels that were never tried. Trying them now would
// stop the run and take memory from it.
func (t *tuning) warn(n *need) {
	if untried := t.untried(n); untried > 0 {
		t.rec.Note("warn", fmt.Sprintf("autotune: %d kernels of these settings were never tried on this GPU and take the planner's guess; a run that starts with them tries them", untried))
	}
}

// try makes the device try the variants of the full batch's kernels before the run, and
// reports the progress.
func (t *tuning) try(n *need) error {
	start := t.task.Start
	if start == nil {
		start = context.Background()
	}
	var progress func(done, total int)
	if f := t.task.Progress; f != nil {
		progress = func(done, total int) { f("trying kernels on "+t.name+" (once)", done, total) }
	}
	ctx, cancel := context.WithTimeout(start, t.task.TuneLimit)
	defer cancel()
	began, before := time.Now(), len(t.tuner.Tuned())
	for _, text := range t.tuner.Tune(ctx, n.full, progress) {
		t.rec.Note("warn", text)
	}
	tuned := t.tuner.Tuned()
	if text := tuningGain(tuned[min(before, len(tuned)):]); text != "" {
		t.rec.Note("info", fmt.Sprintf("autotune: %s, in %s", text, time.Since(began).Round(100*time.Millisecond)))
	}
	return errs.Wrap(start.Err(), "try", "the kernels on "+t.name, "run it again: it goes on from there")
}

// decisions lists the choices between kernel variants.
func (t *tuning) decisions() []device.Tuned {
	if t.tuner == nil {
		return nil
	}
	return t.tuner.Tuned()
}

// tuningGain says in words what decisions gained, by the kernels' times alone.
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
