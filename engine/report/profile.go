package report

import (
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// maxProfiled is how many steps of a trace the report lists.
const maxProfiled = 50

// The names of what is shown of a GPU.
const (
	gpuUtilisation = "GPU utilisation"
	smEfficiency   = "est. SM efficiency"
	occupancy      = "est. achieved occupancy"
	idleHost       = "idle: launched late by the host"
	idleCall       = "idle: in a call that waited"
	idleKernel     = "idle: kernel after kernel"
	idleOther      = "idle: else"
)

// profile is the section about what a trace that was imported tells beside the causes of
// idleness: the step breakdown and the GPU metrics of PyTorch's TensorBoard plugin.
type profile struct{ *trace.Profile }

func (p profile) write(d *markup.Document) {
	if p.Profile == nil || p.Count == 0 {
		return
	}
	d.Heading(2, "What the profiler recorded")
	d.Table(p.steps())
	if n := p.Count - maxProfiled; n > 0 {
		d.Para("%s are not listed; the mean is of all.", units.Counted(n, "further step", "further steps"))
	}
	d.Sentences(
		"The columns are those of PyTorch's TensorBoard plugin, but that a kernel of NCCL's always counts as Communication.",
		"An instant counts in the first of them that applies, so Memcpy is what no kernel hides and DataLoader what neither hides.",
		"A step begins where the one before ended, or where the host began it if that is later, and ends when the host and the device had ended it.")
	if p.Cut > 0 {
		d.Para("Left out at the end: %s, %s.", units.Counted(p.Cut, "step", "steps"), p.Lacking())
	}
	if len(p.GPUs) == 0 {
		return
	}
	d.Table(p.gpus())
	d.Sentences(
		"Utilisation is the time in which a kernel ran, of any kind.",
		"Estimates are the profiler's, from the kernels' grids.",
		"Idle is the time in which nothing ran at all: what ran next was launched only then (late),",
		"or by a call that had begun and waited, as a copy does; or in time and began as soon as a kernel can",
		"(kernel after kernel), or waited for something else.")
}

// steps is the table of the step breakdown, in microseconds.
func (p profile) steps() [][]string {
	head := []string{"step, µs"}
	for r := range trace.NumRoles {
		head = append(head, ">"+r.String())
	}
	rows := [][]string{append(head, ">all")}
	add := func(name string, s *trace.ProfiledStep, n int64) {
		row := []string{strings.TrimPrefix(name, "ProfilerStep")}
		for _, ns := range append(s.Roles[:], s.Length) {
			row = append(row, units.Count(int64(math.Round(float64(ns)/float64(n)/1000))))
		}
		rows = append(rows, row)
	}
	for i := range p.Steps[:min(len(p.Steps), maxProfiled)] {
		add(p.Steps[i].Name, &p.Steps[i], 1)
	}
	add("mean", &p.Total, p.Count)
	share := []string{"share"}
	for r := range trace.NumRoles {
		share = append(share, units.Prose.Percent(p.Share(r)))
	}
	return append(rows, append(share, units.Prose.Percent(1)))
}

// gpus is the table of what the trace tells of each GPU.
func (p profile) gpus() [][]string {
	rows := [][]string{
		{"over all steps"}, {gpuUtilisation}, {smEfficiency}, {occupancy}, {"memory allocated at most"},
		{idleHost}, {idleCall}, {idleKernel}, {idleOther},
	}
	estimate := func(share *float64) string {
		if share == nil {
			return notRecorded
		}
		return units.Prose.Percent(*share)
	}
	idle := func(ns int64) string {
		return units.Prose.Time(ns/p.Count) + " a step (" + units.Prose.Percent(p.ShareOf(ns)) + ")"
	}
	for i := range p.GPUs {
		g := &p.GPUs[i]
		memory := notRecorded
		switch {
		case g.Peak > 0 && g.Memory > 0:
			memory = units.Prose.Bytes(g.Peak) + " of " + units.Prose.Bytes(g.Memory)
		case g.Peak > 0:
			memory = units.Prose.Bytes(g.Peak)
		}
		for j, cell := range []string{
			">GPU " + strconv.Itoa(g.ID), units.Prose.Percent(g.Utilisation), estimate(g.Efficiency), estimate(g.Occupancy), memory,
			idle(g.Idle.Host), idle(g.Idle.Call), idle(g.Idle.Kernel), idle(g.Idle.Other),
		} {
			rows[j] = append(rows[j], cell)
		}
	}
	return rows
}
