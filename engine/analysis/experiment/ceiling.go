package experiment

import (
	"math"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/trace"
)

// An interlude ends when the gain is known to within precise or a tenth of itself, after
// long when it is known that there is one, and after twice that when at least its bounds are;
// not before brief, twice what a comparison needs: the last steps change how much they all tell,
// and what was known by a hair would not be any more.
const (
	precise = 0.05
	brief   = int64(4 * time.Second)
	long    = int64(10 * time.Second)
)

// interlude goes on with a ceiling: first the settings in force are measured, unless they
// were, then cached batches are served, then it is over.
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
