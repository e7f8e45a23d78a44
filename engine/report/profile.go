package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/lines"
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
	talked         = "communication"
	exposed        = "communication, exposed"
	hiddenTalk     = "communication, hidden"
	idleHost       = "idle: nothing launched"
	idleCall       = "idle: in a call that waited"
	idleKernel     = "idle: kernel after kernel"
	idleOther      = "idle: else"
	launched       = "launched"
	shortWork      = "shorter than its launch"
	longCalls      = "launch calls over 50 µs"
	launchDelay    = "launch delay, median"
	delayed        = "launch delay over 100 µs"
	queueLength    = "launch queue, mean (at most)"
)

// profile is the section about what an imported trace tells besides the causes of
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
		"Communication is hidden while a kernel computes, and exposed otherwise, also beside a copy.",
		"Idle is the time in which nothing ran at all: what ran next was launched only then (nothing launched),",
		"or by a call that had begun and waited, as a copy does; or in time and began as soon as a kernel can",
		"(kernel after kernel), or waited for something else.",
		"Launches are kernels, copies and memsets, counted as Holistic Trace Analysis does: the delay is from the end of the call,",
		"and the queue that of the stream with most of them, over all its changes.")
	p.host(d)
}

// steps returns the table of the step breakdown, in microseconds.
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

// gpus returns the table of what the trace tells of each GPU.
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
	aStep := func(ns int64) string {
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
			aStep(g.Idle.Host), aStep(g.Idle.Call), aStep(g.Idle.Kernel), aStep(g.Idle.Other),
		} {
			rows[j] = append(rows[j], cell)
		}
	}
	rows = append(rows, p.launches()...)
	if !slices.ContainsFunc(p.GPUs, func(g trace.ProfiledGPU) bool { return g.Talked > 0 }) {
		return rows
	}
	more := [][]string{{talked}, {exposed}, {hiddenTalk}}
	for i := range p.GPUs {
		g := &p.GPUs[i]
		more[0], more[1] = append(more[0], aStep(g.Talked)), append(more[1], aStep(g.Exposed))
		more[2] = append(more[2], units.Prose.Percent(g.Overlap())+" of it")
	}
	return append(rows, more...)
}

// launches returns the rows about how work was launched; none where no call is on record.
func (p profile) launches() [][]string {
	if !slices.ContainsFunc(p.GPUs, func(g trace.ProfiledGPU) bool { return g.Launches.Count > 0 }) {
		return nil
	}
	rows := [][]string{{launched}, {shortWork}, {longCalls}, {launchDelay}, {delayed}, {queueLength}}
	for i := range p.GPUs {
		l := &p.GPUs[i].Launches
		part := func(n int64) string {
			return units.Count(n) + " (" + units.Prose.Percent(float64(n)/float64(max(1, l.Count))) + ")"
		}
		for j, cell := range []string{
			units.Count(l.Count), part(l.Short), part(l.LongCalls), units.Prose.Time(l.Delay), part(l.Delayed), units.Rate(l.Queue) + " (" + units.Count(l.QueueMost) + ")",
		} {
			rows[j] = append(rows[j], cell)
		}
	}
	return rows
}

// host is the table of what the host did while the busiest GPU was idle.
func (p profile) host(d *markup.Document) {
	g := p.Busiest()
	all := g.Idle.All()
	rows := [][]string{{"the host was in", "name", ">of the idle time", ">a step"}}
	listed := map[trace.HostPart]int{}
	for _, h := range g.Host {
		if listed[h.Part]++; listed[h.Part] <= lines.Few && h.Time*100 >= all {
			rows = append(rows, []string{string(h.Part), h.Name, units.Prose.Percent(float64(h.Time) / float64(max(1, all))), units.Prose.Time(h.Time / p.Count)})
		}
	}
	if len(rows) == 1 {
		return
	}
	d.Para("While GPU %d was idle:", g.ID)
	d.Table(rows)
	d.Sentences(
		"Of each gap, this is what the thread did that launched what ended it, or the loop's thread while that one did nothing on record.",
		"Each kind divides the same time, and the innermost one has it. What is missing to 100 % was in none of the kind, or in shorter ones.",
		"The number of a Python function is its first line; those of PyTorch and the standard library are left out.")
}
