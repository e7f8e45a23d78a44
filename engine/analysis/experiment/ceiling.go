package experiment

import (
	"math"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// An experiment with cached batches never ends before brief, which is twice what a comparison
// needs. Until then the newest steps still change how much all steps tell, and a close answer
// could be lost again.
//
// After that it ends when the gain is known to within precise, or to a tenth of itself. After
// long it ends if it is certain that there is a gain. After twice long it ends if at least the
// bounds of the gain are known.
const (
	precise = 0.05
	brief   = int64(4 * time.Second)
	long    = int64(10 * time.Second)
)

// interlude continues an experiment with cached batches. It measures the settings in force, unless
// they were measured. Then it turns cached batches on, and then it ends.
func (e *Experiment) interlude(s *trace.Snapshot) {
	if e.side == sideA {
		rows := attribution.Segments(s)
		if n := len(rows); n > 0 && rows[n-1].Stretch.Enough() {
			e.want(s, sideB)
		}
		return
	}
	if e.segment < 0 {
		return
	}
	so := e.so(s)
	c := &so.Change.Throughput
	active := so.Sides[sideB].Active
	within := max(math.Log1p(precise), math.Abs(math.Log(c.Ratio))/10)
	switch {
	case active < brief, c.Answer == stats.Unknown && c.Missing.What != stats.Precision:
	case math.Log(c.Hi/c.Lo) <= 2*within, c.Answer != stats.Unknown && active >= long, active >= 2*long:
		e.finish(s, sideA, "")
	}
}
