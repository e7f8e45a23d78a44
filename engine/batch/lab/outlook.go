package lab

import (
	"time"

	"dev.gpustall/engine/batch/sweep"
)

// outlook estimates how much of a lab is left. Its later stages depend on the earlier ones,
// so their number of runs is a guess until they begin.
type outlook struct {
	ahead []share       // stages that are to come
	runs  int           // done
	of    int           // runs of the stage under way
	base  int           // runs done before it
	steps int64         // of the runs that were done now, not in an earlier Run
	took  time.Duration // by those runs
}

// share is what a stage is expected to take.
type share struct {
	kind        Kind
	runs, steps int
}

// fixesExpected is how many fixes a lab is expected to try.
const fixesExpected = 4

func newOutlook(r *Request) outlook {
	var o outlook
	add := func(k Kind, configs, steps int) {
		o.ahead = append(o.ahead, share{k, configs * r.Repeat, steps + r.Warmup})
	}
	if r.Inject {
		o.ahead = append(o.ahead, share{Probe, 1, r.Trial + r.Warmup})
	}
	add(Baseline, 1, r.Long)
	for range fixesExpected {
		add(Fix, 2, r.Trial)
	}
	add(Workers, 5, r.Trial)
	add(Validation, 2, r.Long)
	add(Precision, 4, r.Trial)
	add(Accumulation, 4, r.Trial)
	add(Checkpointing, 2, r.Trial)
	add(Capture, 2, r.Trial)
	add(Ladder, 5, r.Trial)
	return o
}

// enter begins a stage: its number of runs is known now. Stages that were expected before
// it did not come.
func (o *outlook) enter(k Kind, p *sweep.Plan) {
	for i := range o.ahead {
		if o.ahead[i].kind == k {
			o.ahead = o.ahead[i+1:]
			break
		}
	}
	o.base, o.of = o.runs, len(p.Order())
}

// again begins the runs of the stage under way anew: those that were done stay counted.
func (o *outlook) again() { o.base = o.runs }

// lengthen makes runs of the stages to come at least so many steps long.
func (o *outlook) lengthen(steps int) {
	for i := range o.ahead {
		o.ahead[i].steps = max(o.ahead[i].steps, steps)
	}
}

// add makes the counts of a stage's event those of the whole lab.
func (o *outlook) add(e *sweep.Event, p *sweep.Plan) {
	done := e.Done
	if e.Ended {
		o.runs = o.base + done
		if !e.Kept && e.Err == nil {
			o.steps += int64(e.Steps)
			o.took += e.Took
		}
	}
	runs, steps := o.of-done, int64(o.of-done)*int64(p.Warmup+p.Steps)
	for _, s := range o.ahead {
		runs += s.runs
		steps += int64(s.runs) * int64(s.steps)
	}
	e.Done = o.base + done
	e.Of = e.Done + runs
	e.Left = 0
	if o.steps > 0 {
		e.Left = time.Duration(float64(o.took) / float64(o.steps) * float64(steps))
	}
}
