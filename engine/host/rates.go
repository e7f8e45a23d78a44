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
	ours, busy := second(prev.OurCPU, cur.OurCPU), second(prev.Busy, cur.Busy)
	running, waiting := grown(prev.Running, cur.Running), grown(prev.Waiting, cur.Waiting)
	runnable := running
	runnable.Value += waiting.Value
	return []Rate{
		{trace.GaugeCPUOurs, ours},
		{trace.GaugeCPUOthers, less(busy, ours)},
		{trace.GaugeCPUIdle, second(prev.Idle, cur.Idle)},
		{trace.GaugeRunQueue, ratio(waiting, runnable)},
		{trace.GaugePressureCPU, second(prev.PressureCPU, cur.PressureCPU)},
		{trace.GaugePressureIO, second(prev.PressureIO, cur.PressureIO)},
		{trace.GaugePressureMemory, second(prev.PressureMemory, cur.PressureMemory)},
		{trace.GaugeThrottled, ratio(grown(prev.Throttled, cur.Throttled), grown(prev.Periods, cur.Periods))},
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

// less is a - b, and never below 0: the two are counted at different moments.
func less(a, b Reading) Reading {
	switch {
	case !a.Known:
		return a
	case !b.Known:
		return b
	}
	return known(max(0, a.Value-b.Value))
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
