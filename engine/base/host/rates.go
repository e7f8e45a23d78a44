package host

// Rates is what happened between two samples. Cores are those that this process may run on.
type Rates struct {
	CPUOurs, CPUOthers, CPUIdle Reading // percent of the cores' time; together 100
	CPUGroup                    Reading // the part of CPUOthers that shares cores with us by the thread

	RunQueue  Reading // percent of the time in which our threads could run: waiting for a core
	Throttled Reading // percent of the periods in which the cgroup's CPU quota ran out

	// Percent of the time in which at least one task of the host waited for it.
	PressureCPU, PressureIO, PressureMemory Reading

	MajorFaults Reading // pages a second that this process had to wait for a disk for
	DiskRead    Reading // bytes a second that the host's disks read
	DiskOurs    Reading // bytes a second read from storage for this process
}

// Between returns the rates from one sample to a later one. Each rate that is unknown says why. It
// is false where no time lies between the samples.
func Between(prev, cur Sample) (Rates, bool) {
	over := cur.At.Sub(prev.At).Seconds()
	if over <= 0 {
		return Rates{}, false
	}
	second := func(from, to Reading) Reading { return ratio(grown(from, to), known(over)) }
	ours, busy, idle := grown(prev.OurCPU, cur.OurCPU), grown(prev.Busy, cur.Busy), grown(prev.Idle, cur.Idle)
	others := less(busy, ours)
	all := plus(plus(ours, others), idle)
	waiting := grown(prev.Waiting, cur.Waiting)
	runnable := plus(grown(prev.Running, cur.Running), waiting)
	return Rates{
		CPUOurs:        percent(ours, all),
		CPUOthers:      percent(others, all),
		CPUIdle:        percent(idle, all),
		CPUGroup:       percent(least(less(grown(prev.Group, cur.Group), ours), others), all),
		RunQueue:       percent(waiting, runnable),
		Throttled:      percent(grown(prev.Throttled, cur.Throttled), grown(prev.Periods, cur.Periods)),
		PressureCPU:    percent(grown(prev.PressureCPU, cur.PressureCPU), known(over)),
		PressureIO:     percent(grown(prev.PressureIO, cur.PressureIO), known(over)),
		PressureMemory: percent(grown(prev.PressureMemory, cur.PressureMemory), known(over)),
		MajorFaults:    second(prev.MajorFaults, cur.MajorFaults),
		DiskRead:       second(prev.DiskRead, cur.DiskRead),
		DiskOurs:       second(prev.OurRead, cur.OurRead),
	}, true
}

// grown returns by how much a counter grew. A counter that went back was reset, and tells nothing
// this once.
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

// less returns a - b, and at least 0, because the two are read one after the other.
func less(a, b Reading) Reading {
	if b.Known {
		b.Value = -min(a.Value, b.Value)
	}
	return plus(a, b)
}

// least returns the smaller of two; unknown where either is.
func least(a, b Reading) Reading {
	sum := plus(a, b)
	sum.Value = min(a.Value, b.Value)
	return sum
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

// ratio returns a / b. The ratio of 0 to 0 is 0.
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
