//go:build linux

package command

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/trace"
)

// stepLimit ends the command of a watched training after the steps that --steps asks for, or when a setting
// that --set asks for is refused.
type stepLimit struct {
	task    *watch.Task           // nil where there is no limit
	reached atomic.Bool           // the steps were done
	refused atomic.Pointer[error] // why a setting cannot be in force
}

// begin asks for the settings of --set, and begins to count steps.
func (l *stepLimit) begin(t *torchRun) {
	r := t.recording
	var refused error
	if len(t.how.set) > 0 {
		refused = t.bridge.Control.Set(t.how.set)
	}
	switch {
	case t.steps > 0:
		l.task = watch.Every(r.recorder, "count steps", 100*time.Millisecond, func() { l.look(t, refused) })
	case refused != nil:
		r.recorder.Note("warn", "the training goes on with its own settings: "+refused.Error())
	}
}

// look ends the command if the time for it has come.
func (l *stepLimit) look(t *torchRun, refused error) {
	s := t.recording.session.Snapshot(0, 0)
	if len(s.Segments) == 0 {
		return
	}
	if refused = cmp.Or(refused, barred(s, t.how.set)); refused != nil {
		l.refused.Store(&refused)
	} else if stepsWith(s, t.how.set) < t.steps {
		return
	} else if !l.reached.Swap(true) {
		t.recording.recorder.Note("info", fmt.Sprintf("interrupted after %d steps, as --steps asks", t.steps))
	}
	t.script.Finish(os.Stderr)
}

// stop ends the counting. The command has ended.
func (l *stepLimit) stop() {
	if l.task != nil {
		l.task.Stop()
		l.task = nil
	}
}

// stepsWith returns how many steps a run has done since these settings are in force.
func stepsWith(s *trace.Snapshot, settings []knob.Setting) int {
	for _, k := range settings {
		if spec := knob.SpecOf(s.Meta.Specs, k.Name); spec == nil || !holds(s, spec, k) {
			return 0
		}
	}
	if s.Total.Steps == 0 {
		return 0
	}
	since := len(s.Segments) - 1
	for since > 0 && !slices.ContainsFunc(settings, func(k knob.Setting) bool {
		return knob.ValueOf(s.Segments[since-1].Knobs, k.Name) != knob.ValueOf(s.Segments[since].Knobs, k.Name)
	}) {
		since--
	}
	return int(s.Last.Index) + 1 - int(s.Segments[since].FirstStep)
}

// err returns how the run ended: as its command did, unless --steps or a refused setting ended it.
func (t *torchRun) err() error {
	if why := t.limit.refused.Load(); why != nil {
		return *why
	}
	if t.limit.reached.Load() {
		return nil
	}
	err := t.script.Err()
	if err == nil && t.steps > 0 && t.recording != nil {
		if s := t.recording.session.Snapshot(0, 0); len(s.Segments) > 0 && stepsWith(s, t.how.set) == 0 {
			return errs.New("set", knob.Join(t.how.set, ", "), "the command ended before it was in force",
				"let the command train longer; over an iterable data set a setting is in force from the second epoch on")
		}
	}
	return err
}
