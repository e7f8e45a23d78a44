package torch

import (
	"cmp"
	"math"
	"slices"

	"dev.gpustall/engine/trace"
)

// launchDelay is the longest gap, in ns, that a device itself makes between two kernels that were
// enqueued in time. Holistic Trace Analysis has 30 for it, in the trace's unit, which is microseconds
// (consecutive_kernel_delay of get_idle_time_breakdown). Its documentation says nanoseconds, but
// devices need longer than 30 ns.
const launchDelay = 30_000

// profiled returns the GPUs on which something ran in the steps, or else all GPUs of the trace. The
// idle time is counted within the steps. The other figures are over all, the time from the first to
// the last step, as in PyTorch's TensorBoard plugin.
func (r *recording) profiled(all span, steps ranges) []trace.ProfiledGPU {
	launched := r.launching()
	slices.SortFunc(r.device, func(a, b deviceEvent) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.start, b.start))
	})
	var out, unused []trace.ProfiledGPU
	var ran [][]deviceEvent // events of the GPUs in out
	for rest := r.device; len(rest) > 0; {
		id := rest[0].device
		n, _ := slices.BinarySearchFunc(rest, id+1, func(d deviceEvent, id int32) int { return cmp.Compare(d.device, id) })
		g := trace.ProfiledGPU{ID: int(id)}
		if known := r.gpus[int64(id)]; known != nil {
			g.Name, g.Memory, g.Peak = known.name, known.memory, known.peak
		}
		kernels := slices.DeleteFunc(slices.Clone(rest[:n]), func(d deviceEvent) bool { return d.kind != kindKernel })
		g.Utilisation = utilisation(kernels, all)
		g.Talked, g.Exposed = communication(kernels, all)
		g.Efficiency = efficiency(kernels, all)
		g.Occupancy = occupancy(kernels, all)
		g.Idle = idle(rest[:n], steps, launched)
		g.Launches = launchesOf(rest[:n], launched)
		events := rest[:n]
		if rest = rest[n:]; g.Idle.All() == steps.length() {
			unused = append(unused, g)
			continue
		}
		if out, ran = append(out, g), append(ran, events); len(out) == 64 {
			break
		}
	}
	if len(out) == 0 {
		return unused[:min(len(unused), 64)]
	}
	p := trace.Profile{GPUs: out}
	busiest := p.Busiest()
	busiest.Host = r.host(ran[slices.IndexFunc(out, func(g trace.ProfiledGPU) bool { return g.ID == busiest.ID })], steps, launched)
	return out
}

// communication returns how long kernels of communication ran, and for how long of that no kernel
// computed. Holistic Trace Analysis calls the rest the overlap (get_comm_comp_overlap).
func communication(kernels []deviceEvent, all span) (talked, exposed int64) {
	var talks, computes []span
	for i := range kernels {
		if k := &kernels[i]; k.communicates {
			talks = append(talks, k.span)
		} else {
			computes = append(computes, k.span)
		}
	}
	t := merged(talks).within(all)
	return t.length(), t.without(merged(computes)).length()
}

// utilisation returns the share of the time in which a kernel ran.
func utilisation(kernels []deviceEvent, all span) float64 {
	spans := make([]span, len(kernels))
	for i := range kernels {
		spans[i] = kernels[i].span
	}
	return float64(merged(spans).within(all).length()) / float64(max(1, all.length()))
}

// efficiency returns the mean share of multiprocessors that had a block, over the time. At an instant
// it is the sum of the running kernels' blocks per multiprocessor, but at most 1.
func efficiency(kernels []deviceEvent, all span) *float64 {
	type edge struct {
		t     int64
		delta float64
	}
	var edges []edge
	for i := range kernels {
		if k := &kernels[i]; k.blocks > 0 && k.length() > 0 && !math.IsInf(k.blocks, 0) && k.start < all.end && k.end > all.start {
			edges = append(edges, edge{k.start, k.blocks}, edge{k.end, -k.blocks})
		}
	}
	if len(edges) == 0 || all.length() == 0 {
		return nil
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(b.delta, a.delta)) })
	var sum, blocks float64
	for i, e := range edges[:len(edges)-1] {
		blocks += e.delta
		w := span{max(e.t, all.start), min(edges[i+1].t, all.end)}
		sum += max(0, min(1, blocks)) * float64(w.length())
	}
	sum /= float64(all.length())
	return &sum
}

// occupancy returns the mean of the profiler's estimates, weighted by how long each kernel ran.
func occupancy(kernels []deviceEvent, all span) *float64 {
	var sum, ran float64
	for i := range kernels {
		k := &kernels[i]
		if ns := float64(span{max(k.start, all.start), min(k.end, all.end)}.length()); k.occupancy >= 0 && !math.IsInf(k.occupancy, 0) {
			sum, ran = sum+k.occupancy/100*ns, ran+ns
		}
	}
	if ran == 0 {
		return nil
	}
	sum /= ran
	return &sum
}

// These limits are those of Holistic Trace Analysis (get_cuda_kernel_launch_stats), in ns.
const (
	longCall  = 50_000  // a call of the runtime that takes longer is an outlier
	longDelay = 100_000 // likewise a delay
)

// launchesOf returns how a GPU's work was launched, over the whole trace. The definitions are those of Holistic Trace
// Analysis (get_cuda_kernel_launch_stats, get_queue_length_summary): work is short where its call took longer, and a queue
// grows at each launch on its stream and shrinks as work begins. A delay is from the call's end to the work's beginning,
// as its documentation has it. Its code adds the call's length where it should subtract it.
func launchesOf(events []deviceEvent, launched func(int64) *call) (out trace.Launches) {
	type change struct{ at, by int64 }
	streams := map[int64][]change{}
	var delays []int64
	for i := range events {
		e := &events[i]
		c := launched(e.correlation)
		if c == nil {
			continue
		}
		delay := max(0, e.start-c.end)
		delays = append(delays, delay)
		switch {
		case c.length() > longCall:
			out.LongCalls++
		case e.length() < c.length():
			out.Short++
		}
		if delay > longDelay {
			out.Delayed++
		}
		streams[e.stream] = append(streams[e.stream], change{c.start, 1}, change{e.start, -1})
	}
	if len(delays) == 0 {
		return out
	}
	slices.Sort(delays)
	out.Count, out.Delay = int64(len(delays)), delays[len(delays)/2]
	busiest, changes := int64(absent), []change(nil)
	for stream, of := range streams {
		if len(of) > len(changes) || len(of) == len(changes) && stream < busiest {
			busiest, changes = stream, of
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	length, sum := int64(0), int64(0)
	for _, c := range changes {
		length += c.by
		sum += length
		out.QueueMost = max(out.QueueMost, length)
	}
	out.Queue = float64(sum) / float64(len(changes))
	return out
}

// launching returns a function that finds the call that launched the work of a correlation, or nil
// where the trace lacks it.
func (r *recording) launching() func(correlation int64) *call {
	byNumber := slices.Clone(r.calls)
	slices.SortStableFunc(byNumber, func(a, b call) int { return cmp.Compare(a.correlation, b.correlation) })
	return func(correlation int64) *call {
		i, ok := slices.BinarySearchFunc(byNumber, correlation, func(c call, n int64) int { return cmp.Compare(c.correlation, n) })
		if !ok || correlation == absent {
			return nil
		}
		return &byNumber[i]
	}
}

// idle divides the time in which nothing ran on a GPU by its cause: the next work was launched late, or
// it was launched in time. The classes are those of Holistic Trace Analysis (breakdown_analysis.py), over
// all streams of the GPU together. Its class "other" is split in two here. A call that begins before the
// gap and waits, as a copy does, has not launched its work yet. events must be in order.
func idle(events []deviceEvent, steps ranges, launched func(int64) *call) (out trace.IdleTime) {
	for i, gap := range gaps(events, steps) {
		lost := steps.within(gap).length()
		var c *call
		if i < len(events) {
			c = launched(events[i].correlation)
		}
		switch {
		case c != nil && c.start > gap.start:
			out.Host += lost
		case c != nil && i > 0 && gap.length() <= launchDelay:
			out.Kernel += lost
		case c != nil && c.end >= gap.end && c.length() > launchDelay:
			out.Call += lost
		default:
			out.Other += lost
		}
	}
	return out
}
