package host

import "dev.gpustall/engine/trace"

// Rate is what happened between two samples, as a gauge of the session
// (trace.GaugeCPUOurs and those after it say what each is and its unit).
type Rate struct {
	Gauge string
	Reading
}

// Rates are all the gauges between two samples; those that are unknown say why.
func Rates(prev, cur Sample) []Rate {
	over := cur.At.Sub(prev.At).Seconds()
	if over <= 0 {
		return nil
	}
	second := func(from, to Reading) Reading { return ratio(grown(from, to), known(over)) }
	ours, busy, idle := grown(prev.OurCPU, cur.OurCPU), grown(prev.Busy, cur.Busy), grown(prev.Idle, cur.Idle)
	others := less(busy, ours)
	all := plus(plus(ours, others), idle)
	waiting := grown(prev.Waiting, cur.Waiting)
	runnable := plus(grown(prev.Running, cur.Running), waiting)
	return []Rate{
		{trace.GaugeCPUOurs, percent(ours, all)},
		{trace.GaugeCPUOthers, percent(others, all)},
		{trace.GaugeCPUIdle, percent(idle, all)},
		{trace.GaugeRunQueue, percent(waiting, runnable)},
		{trace.GaugeThrottled, percent(grown(prev.Throttled, cur.Throttled), grown(prev.Periods, cur.Periods))},
		{trace.GaugePressureCPU, percent(grown(prev.PressureCPU, cur.PressureCPU), known(over))},
		{trace.GaugePressureIO, percent(grown(prev.PressureIO, cur.PressureIO), known(over))},
		{trace.GaugePressureMemory, percent(grown(prev.PressureMemory, cur.PressureMemory), known(over))},
		{trace.GaugeMajorFaults, second(prev.MajorFaults, cur.MajorFaults)},
		{trace.GaugeDiskRead, second(prev.DiskRead, cur.DiskRead)},
		{trace.GaugeDiskOurs, second(prev.OurRead, cur.OurRead)},
	}
}

// grown is by how much a counter grew. One that went back was reset, and says
// nothing for this once.
func grown(from, to Reading) Reading {
	switch {
	case !from.Known:
		return from
	case !to.Known:
		return to
	case to.Value < from.Value:
		return unknown("the counter was reset")
	}
	return known(to.Value - from.Value)
}

// less is a - b, and never below 0: the two are read one after the other.
func less(a, b Reading) Reading {
	if b.Known {
		b.Value = -min(a.Value, b.Value)
	}
	return plus(a, b)
}

func plus(a, b Reading) Reading {
	switch {
	case !a.Known:
		return a
	case !b.Known:
		return b
	}
	return known(a.Value + b.Value)
}

func percent(a, b Reading) Reading {
	r := ratio(a, b)
	r.Value *= 100
	return r
}

// ratio is a / b; nothing of nothing is 0.
func ratio(a, b Reading) Reading {
	switch {
	case !a.Known:
		return a
	case !b.Known:
		return b
	case b.Value == 0:
		return known(0)
	}
	return known(a.Value / b.Value)
}
