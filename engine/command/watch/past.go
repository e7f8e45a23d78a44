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

// Looking for earlier runs ends after so many files, or so long.
const (
	pastFiles = 100
	pastTime  = 2 * time.Second
)

// Past looks for earlier runs of the same training while a run goes on, and records what
// they reached.
type Past struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// LookBack begins to look in the folder of sessions. self is the file of the run, and
// knobs its settings at the start.
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

// Stop ends the search, also of a run that never had one.
func (p *Past) Stop() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// earlier is what the newest runs of the same training reached, at most advice.MaxPast.
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

// alike reports whether two runs train the same on the same machine.
func alike(a, b *trace.Meta) bool {
	if a.Model != b.Model || a.Form != b.Form || a.Params != b.Params || a.Dataset != b.Dataset || a.Format != b.Format || a.Samples != b.Samples || a.Synthetic != b.Synthetic ||
		a.Device != b.Device || a.DeviceKind != b.DeviceKind || a.Emulated != b.Emulated || a.Imported != b.Imported {
		return false
	}
	for _, fact := range []string{"cpu", "threads", "cpu quota", "memory"} {
		if knob.ValueOf(a.Host, fact) != knob.ValueOf(b.Host, fact) {
			return false
		}
	}
	return true
}

// sameTraining are the knobs that make it another training, or the device's work another.
var sameTraining = []string{"batch_size", "precision", "gradient_accumulation", "checkpointing"}

// reachedBy is what the settings to keep of a run reached; false where they were too few
// steps, another training, or not its own speed.
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
