package watch

import (
	"fmt"
	"sync"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// experimentPeriod is how often an experiment looks at the session. On average, a quarter of
// a pair lasts half a period longer than planned.
const experimentPeriod = 50 * time.Millisecond

// Experiments runs one experiment at a time beside the training. Its goroutine lives from
// StartExperiments to Close.
type Experiments struct {
	session  *trace.Session
	control  experiment.Control
	recorder *trace.Recorder
	needs    func([]knob.Setting) (host int64, refusal string) // for experiment.Tuning

	mu       sync.Mutex
	now      *experiment.Experiment // the one under way, or nil
	waiting  []experiment.Question
	answered func(error) // called when no question is left; nil after that, and if nobody asked

	begun chan struct{} // wakes the goroutine
	task  *Task
}

// StartExperiments starts the goroutine. The caller must call Close.
func StartExperiments(s *trace.Session, c experiment.Control, r *trace.Recorder, needs func([]knob.Setting) (int64, string)) *Experiments {
	x := &Experiments{session: s, control: c, recorder: r, needs: needs, begun: make(chan struct{}, 1)}
	x.task = Go(r, "experiment", func(quit <-chan struct{}) {
		for {
			select {
			case <-quit:
				return
			case <-x.begun:
			}
			if !x.follow(quit) {
				return
			}
		}
	})
	return x
}

// follow looks until nothing is under way. It returns false if the run ended first.
func (x *Experiments) follow(quit <-chan struct{}) bool {
	tick := time.NewTicker(experimentPeriod)
	defer tick.Stop()
	for x.look() {
		select {
		case <-quit:
			return false
		case <-tick.C:
		}
	}
	return true
}

// wake wakes the goroutine. The caller holds mu.
func (x *Experiments) wake() {
	select {
	case x.begun <- struct{}{}:
	default:
	}
}

// Ask begins experiments one after the other, each as soon as the current settings have been
// measured. It calls answered when the settings have been measured after the last experiment, or
// with the reason why one could not begin.
func (x *Experiments) Ask(q []experiment.Question, answered func(error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(q) > 0 {
		x.waiting, x.answered = q, answered
		x.wake()
	}
}

// look continues what is under way, or begins what waits. It returns false if there is neither.
func (x *Experiments) look() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now == nil && x.answered == nil {
		return false
	}
	s := x.session.Snapshot(0, 0)
	switch {
	case x.now != nil:
		if x.now.Look(s) {
			x.now = nil
		}
	case !settled(s):
	case len(x.waiting) == 0:
		x.answer(nil)
	default:
		if err := x.begin(x.waiting[0], s); err != nil {
			x.answer(err)
			break
		}
		x.waiting = x.waiting[1:]
	}
	return true
}

func (x *Experiments) answer(err error) {
	x.answered(err)
	x.answered, x.waiting = nil, nil
}

// settled reports whether the current settings have been measured for long enough to compare.
func settled(s *trace.Snapshot) bool {
	rows := attribution.Segments(s)
	n := len(rows)
	return n > 0 && rows[n-1].Segment.Index == s.Segments[len(s.Segments)-1].Index && rows[n-1].Stretch.Enough()
}

func (x *Experiments) begin(q experiment.Question, s *trace.Snapshot) error {
	if q.Kind == trace.Tune {
		var t experiment.Tuning
		if q.Tuning != nil {
			t = *q.Tuning
		}
		t.Window, t.Needs = x.session.Snapshot, x.needs
		q.Tuning = &t
	}
	e, err := experiment.New(q, s, x.control, x.recorder)
	if err == nil {
		x.now = e
		x.wake()
	}
	return err
}

// Begin begins an experiment with the usual budget. Any goroutine may call it.
func (x *Experiments) Begin(kind trace.ExperimentKind, knobs []knob.Setting) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil || len(x.waiting) > 0 {
		return errs.New("begin", "an experiment", "another one is under way", "wait for it, or stop it")
	}
	return x.begin(experiment.Question{Kind: kind, Knobs: knobs}, x.session.Snapshot(0, 0))
}

// Stop ends the experiment under way, if there is one. Any goroutine may call it.
func (x *Experiments) Stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil {
		x.now.Stop(x.session.Snapshot(0, 0))
	}
}

// Close ends the goroutine. It is called after the run has ended.
func (x *Experiments) Close() {
	x.task.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil {
		x.now.Abandon(x.session.Snapshot(0, 0))
	}
	for i := range x.waiting {
		x.recorder.Note("warn", fmt.Sprintf("ask %v: the run ended before the settings in force were measured for as long as a comparison needs; let it run longer", &x.waiting[i]))
	}
}
