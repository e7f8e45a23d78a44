package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// queueing says how many workers wait for a lock that they share; empty where hardly any does.
func (l *loader) queueing() string {
	waiting, _ := l.lockWaiting()
	if l.workers < 2 || waiting < moderate*float64(l.workers) {
		return ""
	}
	return fmt.Sprintf("~%.1f of %s wait at any time for a lock that processes share (a multiprocessing.Lock, or one on a file)",
		waiting, units.Counted(l.workers, "worker", "workers"))
}

// serial reports whether workers wait so much for a shared lock that twice as many are expected to
// load hardly faster. Where they wait for it as much as for anything else, that must only be possible:
// on a crowded host nothing is certain, and more workers wait longer for the lock.
func (l *loader) serial() bool {
	m := l.knobs.model
	if m == nil {
		return l.locked()
	}
	if l.workers < 2 || m.Lock.Workers < moderate*float64(l.workers) {
		return false
	}
	p, ok := l.knobs.predict(knob.Setting{Name: "num_workers", Value: strconv.Itoa(2 * l.workers)})
	return ok && (predict.Gain(p).Value < 1+moderate || l.locked() && predict.Vague(p) && !predict.Faster(p))
}

// locked reports whether workers wait for a shared lock at least as much as for anything else. All
// but one of them can wait for it at a time.
func (l *loader) locked() bool {
	waiting, _ := l.lockWaiting()
	return l.workers > 1 && 2*waiting >= float64(l.workers-1)
}

// lockWaiting returns how many workers waited for a lock that processes share, on average.
func (l *loader) lockWaiting() (workers float64, known bool) {
	return l.session.gauge(trace.GaugeLockWaiting)
}

// atOnce names the condition under which more workers help: what they wait for must serve more
// of them at a time. It is empty where the session shows that it does.
func (l *loader) atOnce() string {
	proven := slices.ContainsFunc(l.tried.trials, func(t Trial) bool { return t.Knob == "num_workers" && t.Outcome == Gain && between(t.From, t.To) > 0 })
	_, seen := l.lockWaiting()
	switch {
	case !l.session.pytorch() || proven || l.queueing() != "":
		return ""
	case strings.HasSuffix(l.session.Meta.Format, "iterable-style"):
		return ", unless the data set has fewer shards than workers"
	case seen && l.workers > 1: // the workers are watched, and wait for no lock, or little
		return ", unless what they wait for serves no more at once"
	}
	return ", unless they wait for each other (a lock, or a server that serves one at a time)"
}
