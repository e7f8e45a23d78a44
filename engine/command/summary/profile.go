package summary

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// profileSummary is what only a profiler's trace tells.
type profileSummary struct {
	Steps     int64             `json:"profiled_steps"`
	LeftOut   int               `json:"steps_left_out"`
	Step      number            `json:"step_s"`           // mean
	Breakdown map[string]number `json:"step_breakdown_s"` // of step_s, by the words of PyTorch's TensorBoard plugin
	GPUs      []gpuSummary      `json:"gpus"`
	text      string
}

type gpuSummary struct {
	GPU         int           `json:"gpu"`
	Name        string        `json:"name"`
	Utilization number        `json:"utilization"`
	Efficiency  number        `json:"sm_efficiency"`
	Occupancy   number        `json:"occupancy"`
	Peak        int64         `json:"allocated_bytes"`
	Memory      int64         `json:"memory_bytes"`
	Talked      number        `json:"communication_s"` // mean of a step, like all the following
	Exposed     number        `json:"exposed_communication_s"`
	Host        number        `json:"idle_host_s"`
	Call        number        `json:"idle_call_s"`
	Kernel      number        `json:"idle_kernel_s"`
	Other       number        `json:"idle_other_s"`
	In          []hostSummary `json:"idle_host,omitempty"`
	Launches    *launchesOf   `json:"launches,omitempty"`
}

// launchesOf says how the work of a GPU was launched.
type launchesOf struct {
	Count     int64  `json:"count"`
	Short     int64  `json:"shorter_than_call"`
	LongCalls int64  `json:"calls_over_50us"`
	Delay     number `json:"delay_median_s"`
	Delayed   int64  `json:"delayed_over_100us"`
	Queue     number `json:"queue_mean"`
	QueueMost int64  `json:"queue_max"`
}

// hostSummary says what the host was in while a GPU was idle.
type hostSummary struct {
	Part  string `json:"in"`
	Name  string `json:"name"`
	Time  number `json:"idle_s"`
	Share number `json:"of_idle"`
}

// profileOf returns nil unless the session is an imported trace.
func profileOf(p *trace.Profile) *profileSummary {
	if p == nil || p.Count == 0 {
		return nil
	}
	aStep := func(ns int64) number { return seconds(ns) / number(p.Count) }
	out := &profileSummary{Steps: p.Count, LeftOut: p.Cut, Step: aStep(p.Total.Length), Breakdown: map[string]number{}, GPUs: []gpuSummary{}, text: Showed(p)}
	for r := range trace.NumRoles {
		out.Breakdown[r.String()] = aStep(p.Total.Roles[r])
	}
	estimate := func(share *float64) number {
		if share == nil {
			return none
		}
		return number(*share)
	}
	for i := range p.GPUs {
		g := &p.GPUs[i]
		var in []hostSummary
		for _, h := range g.Host {
			in = append(in, hostSummary{string(h.Part), h.Name, aStep(h.Time), number(h.Time) / number(max(1, g.Idle.All()))})
		}
		out.GPUs = append(out.GPUs, gpuSummary{g.ID, g.Name, number(g.Utilisation), estimate(g.Efficiency), estimate(g.Occupancy), g.Peak, g.Memory,
			aStep(g.Talked), aStep(g.Exposed), aStep(g.Idle.Host), aStep(g.Idle.Call), aStep(g.Idle.Kernel), aStep(g.Idle.Other), in, launchesSummary(&g.Launches)})
	}
	return out
}

func launchesSummary(l *trace.Launches) *launchesOf {
	if l.Count == 0 {
		return nil
	}
	return &launchesOf{l.Count, l.Short, l.LongCalls, seconds(l.Delay), l.Delayed, number(l.Queue), l.QueueMost}
}

// Showed says in words what profiled steps show of a device.
func Showed(p *trace.Profile) string {
	if len(p.GPUs) == 0 {
		return "nothing ran on a GPU, so what is known is what operators took on the host"
	}
	g := p.Busiest()
	of := func(ns int64) string { return units.Prose.Percent(p.ShareOf(ns)) }
	var estimates []string
	for _, e := range []struct {
		name  string
		share *float64
	}{{"SM efficiency", g.Efficiency}, {"achieved occupancy", g.Occupancy}} {
		if e.share != nil {
			estimates = append(estimates, e.name+" "+units.Prose.Percent(*e.share))
		}
	}
	text := fmt.Sprintf("kernels ran on GPU %d %s of the time", g.ID, units.Prose.Percent(g.Utilisation))
	if len(estimates) > 0 {
		text += " (estimates: " + strings.Join(estimates, ", ") + ")"
	}
	return text + fmt.Sprintf("; it was idle %s with nothing launched, %s in calls that waited, %s between kernels and %s else", of(g.Idle.Host), of(g.Idle.Call), of(g.Idle.Kernel), of(g.Idle.Other))
}
