package tui

import (
	"fmt"
	"runtime/debug"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/panel"
)

// analysis holds the last result of what costs too much for every frame, and when the next one is
// due. This is the window, the verdict on it and the comparisons over the whole session. A command
// computes it off the screen's goroutine, about twice a second and for at most 1 % of a core.
// Waiting for a core does not count, so verdicts do not become older on a busy host.
type analysis struct {
	panel.Analysis
	busy    bool
	started time.Time
	pause   time.Duration // until the next one
	ended   int           // number of experiments that are over
}

// analysedMsg is the result of an analysis.
type analysedMsg struct {
	panel.Findings
	took time.Duration // on a core
}

// brokenMsg is a panic of the analysis. Update panics with it again on the screen's goroutine,
// where the terminal is restored before the panic is printed.
type brokenMsg string

// start returns the command that analyses a snapshot, or nil while one is under way or was a
// moment ago. force skips the wait.
func (a *analysis) start(now time.Time, force bool, shown *trace.Snapshot, source Source, staged []knob.Setting) tea.Cmd {
	if a.busy || (!force && now.Sub(a.started) < a.pause) {
		return nil
	}
	a.busy, a.started = true, now
	snap := *shown // the picture moves on
	return func() (msg tea.Msg) {
		defer func() {
			if p := recover(); p != nil {
				msg = brokenMsg(fmt.Sprintf("%v\n\n%s", p, debug.Stack()))
			}
		}()
		var r analysedMsg
		r.took = timer.Spent(func() { r.Findings = panel.Analyse(&snap, source.Snapshot, staged) })
		return r
	}
}

// take keeps what was found.
func (a *analysis) take(r *analysedMsg) {
	a.busy = false
	a.pause = max(time.Second/2, 100*r.took)
	a.Analysis = r.Analysis
}

// answer returns the experiment that ended since the last analysis, or nil. The caller calls it
// before take.
func (a *analysis) answer(xs []attribution.Experiment) (newest *attribution.Experiment) {
	ended := 0
	for i := range xs {
		if !xs[i].Running() {
			ended++
			newest = &xs[i]
		}
	}
	if ended <= a.ended || a.At == 0 {
		newest = nil
	}
	a.ended = max(a.ended, ended) // at an earlier moment there were fewer
	return newest
}
