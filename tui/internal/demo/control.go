package demo

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Snapshot implements the screen's Source.
func (r *Run) Snapshot(from, to int64) *trace.Snapshot {
	if r.now != nil {
		r.Advance(r.now())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.snap
	if to <= 0 {
		from, to = s.Now+from, s.Now+to
	}
	s.Gauges = map[string][]trace.Point{}
	for k, v := range r.snap.Gauges {
		s.Gauges[k] = v
	}
	n := len(r.steps)
	for n > 0 && r.steps[n-1].End > s.Now { // a step is known once its compute has ended
		n--
	}
	s.Recent, s.Digest = r.steps[:n:n], *trace.Digested(r.steps[:n])
	n = len(s.Segments)
	for n > 1 && s.Segments[n-1].Start > s.Now {
		n--
	}
	s.Segments = s.Segments[:n:n]
	for _, sp := range r.spans {
		if sp.Start <= to && sp.End >= from {
			s.Spans = append(s.Spans, sp)
		}
	}
	return &s
}

// Set implements the screen's Control.
func (r *Run) Set(changes []knob.Setting) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	reason := ""
	for _, c := range changes {
		for i := range r.want {
			if r.want[i].Name == c.Name {
				if reason != "" {
					reason += ", "
				}
				reason += fmt.Sprintf("%s %s -> %s", c.Name, r.want[i].Value, c.Value)
				r.want = slices.Clone(r.want)
				r.want[i].Value = c.Value
			}
		}
	}
	for i := int(r.num("num_workers")); i < len(r.free); i++ {
		r.free[i] = max(r.free[i], r.loop) // a worker that starts later
	}
	r.segment(r.loop, reason)
	return nil
}

// Withdraw takes back a value that was asked for, as a run does that cannot apply a change. It must
// be called before the next Advance.
func (r *Run) Withdraw(name, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = slices.Clone(r.want)
	for i := range r.want {
		if r.want[i].Name == name {
			r.want[i].Value = value
		}
	}
}

// Experiment records an experiment, as a run's recorder does.
func (r *Run) Experiment(x trace.Experiment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Pairs = slices.Clone(x.Pairs)
	for i := range r.snap.Experiments {
		if r.snap.Experiments[i].Index == x.Index {
			r.snap.Experiments = slices.Clone(r.snap.Experiments)
			r.snap.Experiments[i] = x
			return
		}
	}
	r.snap.Experiments = append(r.snap.Experiments, x)
}

// SetBaseline chooses segment A.
func (r *Run) SetBaseline(segment int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snap.Baseline = trace.Baseline{Segment: segment, T: r.snap.Now}
}

// Requested implements the screen's Control.
func (r *Run) Requested() []knob.Setting { r.mu.Lock(); defer r.mu.Unlock(); return r.want }

// Pause implements the screen's Control.
func (r *Run) Pause(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on && !r.paused {
		r.pausedAt = max(r.loop, r.snap.Now)
	}
	if !on && r.paused {
		r.emit(trace.Span{Start: r.pausedAt, End: r.snap.Now, Step: int32(len(r.steps)), Batch: -1, Kind: trace.KindPause, Track: trace.TrackStep})
		r.loop = max(r.loop, r.snap.Now)
	}
	r.paused = on
}

// Paused implements the screen's Control.
func (r *Run) Paused() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.paused }
