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

// experimentPeriod is how often an experiment looks at the session. What a quarter of a
// pair gets on top of its time is half of this, on average.
const experimentPeriod = 50 * time.Millisecond

// Experiments runs one experiment at a time beside the training. Its goroutine lives from
// startExperiments to stop.
type Experiments struct {
	session  *trace.Session
	control  experiment.Control
	recorder *trace.Recorder
	needs    func([]knob.Setting) (host int64, refusal string) // of experiment.Tuning

	mu       sync.Mutex
	now      *experiment.Experiment // under way; nil when none is
	waiting  []experiment.Question
	answered func(error) // called when none of them is left; nil when it was, or nobody asked

	begun      chan struct{} // there is something to look at
	quit, done chan struct{}
}

func StartExperiments(s *trace.Session, c experiment.Control, r *trace.Recorder, needs func([]knob.Setting) (int64, string)) *Experiments {
	x := &Experiments{session: s, control: c, recorder: r, needs: needs, begun: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(x.done)
		defer Recover(r, "experiment")
		for {
			select {
			case <-x.quit:
				return
			case <-x.begun:
			}
			if !x.follow() {
				return
			}
		}
	}()
	return x
}

// follow looks until nothing is under way, or until the run ends: then it is false.
func (x *Experiments) follow() bool {
	tick := time.NewTicker(experimentPeriod)
	defer tick.Stop()
	for x.look() {
		select {
		case <-x.quit:
			return false
		case <-tick.C:
		}
	}
	return true
}

// wake has the goroutine look; mu is held.
func (x *Experiments) wake() {
	select {
	case x.begun <- struct{}{}:
	default:
	}
}

// Ask begins experiments one after another, each as soon as the settings in force were
// measured. answered is called when that is so after the last one, or with the reason why
// one could not begin.
func (x *Experiments) Ask(q []experiment.Question, answered func(error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(q) > 0 {
		x.waiting, x.answered = q, answered
		x.wake()
	}
}

// look goes on with what is under way or waits, and is false when nothing is or does.
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

// settled reports whether the settings in force were measured for as long as a comparison
// needs.
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

// Begin begins an experiment of the usual budget. It may be called from any goroutine.
func (x *Experiments) Begin(kind trace.ExperimentKind, knobs []knob.Setting) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil || len(x.waiting) > 0 {
		return errs.New("begin", "an experiment", "another one is under way", "wait for it, or stop it")
	}
	return x.begin(experiment.Question{Kind: kind, Knobs: knobs}, x.session.Snapshot(0, 0))
}

// Stop ends the experiment under way, if there is one. It may be called from any goroutine.
func (x *Experiments) Stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil {
		x.now.Stop(x.session.Snapshot(0, 0))
	}
}

// Close ends the goroutine, after the run has ended.
func (x *Experiments) Close() {
	close(x.quit)
	<-x.done
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil {
		x.now.Abandon(x.session.Snapshot(0, 0))
	}
	for i := range x.waiting {
		x.recorder.Note("warn", fmt.Sprintf("ask %v: the run ended before the settings in force were measured for as long as a comparison needs; let it run longer", &x.waiting[i]))
	}
}
