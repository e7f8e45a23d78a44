package watch

import (
	"context"
	"path/filepath"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// The search for earlier runs ends after this many files, or this long.
const (
	pastFiles = 100
	pastTime  = 2 * time.Second
)

// Past searches for earlier runs of the same training during a run, and records how fast they
// were.
type Past struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// LookBack starts the search in the folder of sessions. self is the file of the run, and knobs
// are its settings at the start. The caller must call Stop.
func LookBack(r *trace.Recorder, m trace.Meta, self string, knobs []knob.Setting) *Past {
	ctx, cancel := context.WithTimeout(context.Background(), pastTime)
	p := &Past{cancel, make(chan struct{})}
	go func() {
		defer close(p.done)
		defer Recover(r, "look for earlier runs")
		if found, ok := advice.NewPast(earlier(ctx, cli.SessionDir(), &m, self, knobs)); ok {
			found.Record(r)
		}
	}()
	return p
}

// Stop ends the search. p may be nil.
func (p *Past) Stop() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// earlier returns how fast the newest runs of the same training were, at most advice.MaxPast of
// them.
func earlier(ctx context.Context, dir string, m *trace.Meta, self string, knobs []knob.Setting) (runs []advice.Reached) {
	files := 0
	for e := range store.Each(dir) {
		if files++; files > pastFiles || ctx.Err() != nil {
			break
		}
		if e.Err != nil || filepath.Base(e.Path) == filepath.Base(self) || !over(&e.Outcome) || !alike(&e.Meta, m) || e.Digest() != nil {
			continue
		}
		if reached, ok := reachedBy(e.Session.Snapshot(0, 0), knobs); ok {
			if runs = append(runs, reached); len(runs) == advice.MaxPast {
				break
			}
		}
	}
	return runs
}

func over(o *trace.Outcome) bool { return o.Status == "finished" || o.Status == "stopped" }

// alike reports whether two runs train the same model on the same data and machine.
func alike(a, b *trace.Meta) bool {
	if a.Model != b.Model || a.Form != b.Form || a.Params != b.Params || a.Dataset != b.Dataset || a.Format != b.Format || a.Samples != b.Samples || a.Synthetic != b.Synthetic ||
		a.Device != b.Device || a.DeviceKind != b.DeviceKind || a.Emulated != b.Emulated || a.Imported != b.Imported {
		return false
	}
	for _, fact := range []string{"cpu", "threads", trace.CPUQuota, "memory"} {
		if knob.ValueOf(a.Host, fact) != knob.ValueOf(b.Host, fact) {
			return false
		}
	}
	return true
}

// sameTraining are the knobs that change what is trained, or the work of the device.
var sameTraining = []string{"batch_size", "precision", "gradient_accumulation", "checkpointing"}

// reachedBy returns how fast a run was with the settings to keep. ok is false if it had too few
// steps, trained something else, or was slowed or sped up on purpose.
func reachedBy(s *trace.Snapshot, knobs []knob.Setting) (reached advice.Reached, ok bool) {
	rows := attribution.Segments(s)
	if len(rows) == 0 {
		return reached, false
	}
	_, at := advice.Overall(s, rows)
	r := &rows[at.Kept]
	for _, k := range sameTraining {
		if knob.ValueOf(r.Segment.Knobs, k) != knob.ValueOf(knobs, k) {
			return reached, false
		}
	}
	t := s.Tally(r.Segment.Index)
	if r.Steps < advice.MinSteps || t.Flags&(trace.FlagInjected|trace.FlagCeiling) != 0 {
		return reached, false
	}
	return advice.Reached{Rate: r.SamplesPerSecond, Others: advice.Others(s, t)}, r.SamplesPerSecond > 0
}
