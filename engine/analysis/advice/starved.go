package advice

import (
	"fmt"
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// queues holds the states of an empty ready queue, by what the workers are bound by.
var queues = map[trace.Bound]string{trace.BoundCPU: QueueCPU, trace.BoundCores: QueueCores, trace.BoundIO: QueueIO}

// boundOf returns what the phase of a data cause is bound by while the device waited for it. Where
// that was not measured, it is what the phase is bound by in general. It is unknown for causes that
// are not named after a phase.
func boundOf(b *attribution.Breakdown, c trace.Cause) trace.Bound {
	for k := trace.KindRead; k.IsPhase(); k++ {
		if cause, _ := k.Cause(); cause != c {
			continue
		}
		if bound := b.Held.Of(k).Bound(); bound != trace.BoundUnknown {
			return bound
		}
		return b.Work.Phases.Of(k).Bound()
	}
	return trace.BoundUnknown
}

// WithoutCore returns the share of the time in which the device's threads could run and had no
// core, 0 to 1. It is 0 where they are not threads of the host, or where that was not
// measured.
func WithoutCore(s *trace.Snapshot, t *trace.Tally) float64 {
	mean, _, _ := s.GaugeOver(trace.GaugeStarved, t.From, t.To)
	return mean / 100
}

// SlowedMore says how long the device's threads waited for a core in each of two stretches of
// a run. It is empty where they hardly did.
func SlowedMore(s *trace.Snapshot, a, b *trace.Tally) string {
	before, after := WithoutCore(s, a), WithoutCore(s, b)
	if max(before, after) < moderate {
		return ""
	}
	return fmt.Sprintf("its threads waited for a core %s of the time in which it computed, before %s", units.Prose.Percent(after), units.Prose.Percent(before))
}

// starved returns the part of the device's busy time, in ns, that it would save if its threads
// never waited for a core. It is 0 where that is little.
func starved(b *attribution.Breakdown, share float64) int64 {
	if share < high {
		return 0
	}
	return int64(share * float64(b.Busy))
}

// shortage says what the lack of cores costs the device, and who has the cores.
func (s *situation) shortage() (text string) {
	if starved(&s.time.Breakdown, s.host.starved) > 0 {
		who := "the device"
		if s.script.scripted() {
			who = "the script"
		}
		text = fmt.Sprintf("%s is busy %s of the time%s%s; %s", who, units.Prose.Percent(s.time.Utilisation()), s.inStep(), s.script.untrained(), s.host.slowed())
	}
	if share := s.time.share(trace.GroupHost); share >= moderate || text == "" {
		at := ""
		if text == "" {
			at = s.inStep()
		}
		text = join(text, fmt.Sprintf(trace.GroupHost.Info().Loses, units.Prose.Percent(share))+at)
	}
	if s.host.Crowded() {
		text = join(text, s.host.String())
	}
	return text
}

// fewerThreads is for workers that compute on more threads than there are cores, so that the step
// loop or the cpu device lacks one.
func fewerThreads(s *situation) (f Finding, ok bool) {
	full := s.host.Whole()
	f = s.knobs.turn("num_workers", strconv.Itoa(full), fmt.Sprintf("%d workers and the training take turns on %s", s.loader.workers, s.host.Has()))
	f.Share = s.host.lostToHost()
	w := s.loader.Batch
	return f, full > 0 && s.loader.workers > full && w.Core > w.Blocked && (!s.host.Crowded() || s.loader.workers > 2*full)
}

// moreCores is for threads that act late, or compute slowly, because they have no core.
func moreCores(s *situation) (f Finding, ok bool) {
	f = Finding{Remedy: "loader settings won't help; free CPU cores, or use a host with more cores", Share: s.host.lostToHost()}
	switch {
	case s.host.Crowded():
		f.Remedy, f.Here, f.given = elsewhere, true, true
	case s.host.device && s.loader.workersUse() >= 0.1:
		f.Evidence = "the loader's workers and the device's threads take turns on the same cores"
	case s.host.Known && s.host.Others >= 0.1:
		f.Evidence = s.host.String()
	}
	switch c, known := s.loader.capacity(); {
	case known && (s.host.device || s.host.Busy()) && c.Short() && !s.lockedOut(): // the other thread's work is no loading
		f.Evidence = join(f.Evidence, c.String())
	case f.Evidence != "":
	case s.host.Waiting > 0:
		f.Evidence = fmt.Sprintf("threads of the training that were ready to run had no core %s of the time", units.Prose.Percent(s.host.Waiting))
	}
	return f, !s.host.Throttled
}
