package torch

import (
	"cmp"
	"slices"
	"strings"
)

// window is a step with the device's work for it. It begins at the end of the step before, or where the
// host began the step if that is later. It ends when both the host and the device are done with it.
type window struct {
	span
	name     string
	launched int  // kernels, copies and memsets that the host launched in it
	ran      span // from the first of them to the last, on the device
}

// together returns the time of all steps.
func together(steps []window) ranges {
	all := make([]span, len(steps))
	for i := range steps {
		all[i] = steps[i].span
	}
	return merged(all)
}

// tailShare is how many device events the last step must have, as a share of the previous step's. A
// profiler that stops may miss the device's last events. In a trace that breaks off, the last step must
// have all.
const tailShare = 0.8

// windows returns the recording's steps, and how many it left out at the end.
func (r *recording) windows() (out []window, cut int) {
	for _, s := range r.steps {
		out = append(out, window{span: s.span, name: s.name, ran: nothing})
	}
	r.match(out)
	if !slices.ContainsFunc(out, func(w window) bool { return w.launched > 0 }) {
		if len(r.device) == 0 && r.idleTail(out) {
			return out[:len(out)-1], 1
		}
		return out, 0
	}
	before := out[0].start
	if out[0].launched > 0 {
		for i := range r.device {
			if d := &r.device[i]; !d.matched && d.end < out[0].ran.start {
				before = max(before, d.end)
			}
		}
	}
	for i := range out {
		w := &out[i]
		w.start = max(before, w.start)
		if w.launched > 0 {
			w.end = max(w.end, w.ran.end)
		}
		w.end = max(w.end, w.start)
		before = w.end
	}
	keep := len(out)
	for out[keep-1].launched == 0 { // this ends, because some step has launched something
		keep--
	}
	share := tailShare
	if r.cutAt > 0 {
		share = 1
	}
	if keep > 1 && float64(out[keep-1].launched) < share*float64(out[keep-2].launched) {
		keep--
	}
	return out[:keep], len(out) - keep
}

// idleTail reports whether only the last step has no operator. Then the loop had ended, and that step
// lasted until the profiler ended.
func (r *recording) idleTail(steps []window) bool {
	ops, last := r.ops.ranges(), len(steps)-1
	idle := func(w window) bool { return len(ops.within(w.span)) == 0 }
	return last > 0 && idle(steps[last]) && !slices.ContainsFunc(steps[:last], idle)
}

// match finds the step that launched each device event, by the correlation of the launching call. That
// call must lie in the step as the host saw it.
func (r *recording) match(steps []window) {
	at := 0
	for _, c := range r.calls {
		for at < len(steps) && c.start >= steps[at].end {
			at++
		}
		if at == len(steps) {
			return
		}
		s := &steps[at]
		if c.correlation == absent || c.start < s.start || c.end > s.end {
			continue
		}
		for _, i := range r.launchedBy(c.correlation) {
			if d := &r.device[i]; !d.matched {
				d.matched = true
				s.launched++
				s.ran = s.ran.over(d.span)
			}
		}
	}
}

// unsure reports whether some of the first step's work may be missing in a trace that breaks off, because it lacks work
// that was launched, or has none of a later step.
func (r *recording) unsure() bool {
	ran, lost := r.launchesIn(r.steps[0].span)
	later := r.steps[1:]
	works := func(s hostStep) bool { n, _ := r.launchesIn(s.span); return n > 0 }
	return float64(ran) < tailShare*float64(ran+lost) || ran > 0 && len(later) > 0 && !slices.ContainsFunc(later, works)
}

// launchesIn returns how many calls in a span launched what ran on the device, and how many launched what the trace lacks.
func (r *recording) launchesIn(s span) (ran, lost int) {
	at, _ := slices.BinarySearchFunc(r.calls, s.start, func(c call, t int64) int { return cmp.Compare(c.start, t) })
	for _, c := range r.calls[at:] {
		switch {
		case c.start >= s.end:
			return ran, lost
		case c.correlation == absent || c.end > s.end:
		case len(r.launchedBy(c.correlation)) > 0:
			ran++
		case c.name >= 0 && strings.Contains(r.names.of[c.name], "aunch"): // cudaLaunchKernel, hipLaunchKernel
			lost++
		}
	}
	return ran, lost
}

// byCorrelation returns the indices of the device's events, in the order of their correlation.
func (r *recording) byCorrelation() []int32 {
	order := make([]int32, len(r.device))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(r.device[a].correlation, r.device[b].correlation) })
	return order
}

// launchedBy returns the indices of the device's events of one correlation.
func (r *recording) launchedBy(correlation int64) []int32 {
	find := func(n int64) int {
		i, _ := slices.BinarySearchFunc(r.order, n, func(i int32, n int64) int { return cmp.Compare(r.device[i].correlation, n) })
		return i
	}
	return r.order[find(correlation):find(correlation+1)]
}
