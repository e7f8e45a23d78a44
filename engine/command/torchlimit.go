//go:build linux

package command

import (
	"cmp"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/torch/bridge"
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

// barred returns why one of the settings cannot be in force in a run; nil where all can.
func barred(s *trace.Snapshot, settings []knob.Setting) error {
	for _, k := range settings {
		if spec := knob.SpecOf(s.Meta.Specs, k.Name); spec == nil {
			return errs.New("set", k.Name+"="+k.Value, "the loop has no such knob", "leave it out")
		} else if why := spec.Bars(k.Value); why != "" && knob.ValueOf(s.Segments[0].Knobs, k.Name) != inForce(k) {
			return errs.New("set", k.Name+"="+k.Value, why, cmp.Or(spec.Hint, "leave it out"))
		}
	}
	return nil
}

// stepsWith returns how many steps a run has done with the settings since its last change of any.
func stepsWith(s *trace.Snapshot, settings []knob.Setting) int {
	last := &s.Segments[len(s.Segments)-1]
	for _, k := range settings {
		if knob.ValueOf(last.Knobs, k.Name) != inForce(k) {
			return 0
		}
	}
	return int(s.Total.Steps) - int(last.FirstStep)
}

// inForce returns the value of a setting as segments have it.
func inForce(k knob.Setting) string {
	text, err := knob.Canonical(&bridge.KnobTable.Find(k.Name).Spec, k.Value)
	if err != nil {
		return k.Value
	}
	return text
}

// err returns how the run ended: as its command did, unless --steps or a refused setting ended it.
func (t *torchRun) err() error {
	if why := t.limit.refused.Load(); why != nil {
		return *why
	}
	if t.limit.reached.Load() {
		return nil
	}
	return t.script.Err()
}
