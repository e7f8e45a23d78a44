package engine

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// opsPeriod is how often the table of device ops is published, in ns.
const opsPeriod = 2e9

// opTable accumulates device time per launch over plans, those dropped included.
type opTable struct {
	timer device.OpTimer // nil when the device cannot time launches, or should not
	past  []trace.OpTime // of plans that are gone
	at    map[opKey]int  // index in past
	next  int64          // when to publish
	times []device.OpTime
}

type opKey struct{ layer, name string }

func (t *opTable) open(dev device.Device, on bool) {
	t.at = map[opKey]int{}
	if on {
		t.timer, _ = dev.(device.OpTimer)
	}
}

// watch turns the timing of a new plan on.
func (t *opTable) watch(q *plan) error {
	if t.timer == nil {
		return nil
	}
	for _, p := range q.programs() {
		if p.id == 0 {
			continue
		}
		if err := t.timer.TimeOps(p.id, true); err != nil {
			return err
		}
	}
	return nil
}

// keep adds a plan's times to those of the past, before it is released.
func (t *opTable) keep(q *plan) { t.past = t.add(t.past, t.at, q) }

func (t *opTable) add(to []trace.OpTime, at map[opKey]int, q *plan) []trace.OpTime {
	if t.timer == nil {
		return to
	}
	for _, p := range q.programs() {
		if p.id == 0 {
			continue
		}
		t.times = t.timer.OpTimes(p.id, t.times[:0])
		for i, v := range t.times {
			if v.Calls == 0 {
				continue
			}
			l := p.launches[i]
			key := opKey{l.Layer, l.Op.Name()}
			j, ok := at[key]
			if !ok {
				j = len(to)
				at[key] = j
				to = append(to, trace.OpTime{Name: key.name, Layer: key.layer})
			}
			to[j].Calls += v.Calls
			to[j].Total += int64(v.Total)
			to[j].FLOPs += float64(v.Calls) * l.Op.FLOPs()
			to[j].Bytes += float64(v.Calls) * l.Op.Bytes()
		}
	}
	return to
}

// Ops returns the device time of every op so far, in the order of the step.
// FLOPs and Bytes are totals over the calls. It belongs to the step loop's
// goroutine, or to anyone once Run has returned.
func (e *Engine) Ops() []trace.OpTime {
	t := &e.ops
	at := make(map[opKey]int, len(t.at))
	for k, v := range t.at {
		at[k] = v
	}
	out := append([]trace.OpTime(nil), t.past...)
	for _, q := range e.plans.plans {
		out = t.add(out, at, q)
	}
	return out
}

// publishOps hands the table to the session now and then.
func (e *Engine) publishOps(now int64) {
	if e.ops.timer != nil && now >= e.ops.next {
		e.ops.next = now + opsPeriod
		if ops := e.Ops(); len(ops) > 0 {
			e.rec.Ops(ops)
		}
	}
}
