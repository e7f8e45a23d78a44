package torch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// session makes a session of the recording, with a step for each step of the trace. The account
// charges their time to causes. Time 0 of the session is the start of the first step. session also
// returns the recording's steps.
func (r *recording) session(name string) (*trace.Snapshot, []window) {
	steps, cut := r.windows()
	a := r.account(steps)
	b := &builder{account: a, zero: steps[0].start, hostOnly: len(r.device) == 0, index: numbers(steps)}
	profile := &trace.Profile{Rank: max(0, r.rank), World: max(0, r.world), Loader: r.class(), Cut: cut, Count: int64(len(steps)), Pageable: r.pageable()}
	from := 0
	if n := len(steps); n > trace.MaxRows {
		from = n - (trace.MaxRows - trace.FirstRows)
	}
	for i := range steps {
		w := &steps[i]
		s := a.of(w)
		for role := range s.Roles {
			profile.Total.Roles[role] += s.Roles[role]
		}
		profile.Total.Length += s.Length
		if i >= from || i < trace.FirstRows {
			profile.Steps = append(profile.Steps, s)
		}
		if i > 0 { // the session's steps do not overlap
			w.start = max(w.start, steps[i-1].end)
			w.end = max(w.end, w.start)
		}
		b.step(i, w)
		b.steps[len(b.steps)-1].Flags |= r.flags
	}
	profile.Blind = a.roles[trace.RoleRuntime].and(a.blind).length()
	profile.Sends = a.roles[trace.RoleRuntime].and(a.sends).without(a.blind).length()
	profile.Own = r.ownLoading(a, profile.Total.Length)
	for i := len(steps) - 1; i >= 0 && len(b.spans) < trace.MaxSpans; i-- { // keep the newest, as sessions do
		b.lanes(b.index[i], &steps[i])
	}
	all := span{steps[0].start, steps[len(steps)-1].end}
	profile.GPUs = r.profiled(all, together(steps))
	end := all.length()
	snap := &trace.Snapshot{
		Now: end, Outcome: trace.Outcome{Status: "finished", Ended: end},
		Meta:     trace.Meta{Device: "a GPU of unknown name", DeviceKind: "cuda", Model: "a PyTorch training", Imported: name, Profile: profile, Emulated: r.emulated, Synthetic: r.synthetic},
		Segments: []trace.Segment{{Start: 0, FirstStep: b.index[0], Reason: "as recorded"}},
		Recent:   b.steps, Spans: b.spans, Notes: r.notes(profile),
	}
	switch {
	case b.hostOnly:
		snap.Meta.Device, snap.Meta.DeviceKind = "cpu", "cpu"
		if len(r.calls) > 0 {
			snap.Meta.Device = "a device that the trace does not show"
		}
	case len(profile.GPUs) > 0:
		snap.Meta.Device = cmp.Or(profile.Busiest().Name, snap.Meta.Device)
	}
	for _, g := range profile.GPUs {
		snap.Outcome.PeakBytes = max(snap.Outcome.PeakBytes, g.Peak)
	}
	if started := r.base + all.start; started > 1e17 { // smaller times count from the machine's start
		snap.Meta.Started = time.Unix(0, started).UTC()
	}
	return snap, steps
}

// notes returns what a reader of the session must know about the trace.
func (r *recording) notes(p *trace.Profile) (out []trace.Note) {
	if r.world > 1 && r.rank >= 0 {
		out = append(out, trace.Note{Level: "info", Text: fmt.Sprintf("the trace is of rank %d of %d, of which each has one of its own", r.rank, r.world)})
	}
	if len(r.loops) > 1 {
		out = append(out, trace.Note{Level: "warn", Text: fmt.Sprintf("the steps are of %d threads or processes and are taken for those of one, in order of time: of a trace that was merged from several ranks, import each rank's own", len(r.loops))})
	}
	if r.cutAt > 0 {
		out = append(out, trace.Note{Level: "warn", Text: fmt.Sprintf("the trace breaks off after %s of text: it is told as far as it goes, and what the profiler writes last (what the GPU did, as a rule) may be missing", units.Prose.Bytes(r.cutAt))})
	}
	if p.Cut > 0 {
		out = append(out, trace.Note{Level: "warn", Text: "left out at the end: " + units.Counted(p.Cut, "step", "steps") + ", " + p.Lacking()})
	}
	if r.broken > 0 {
		out = append(out, trace.Note{Level: "warn", Text: "left out " + units.Counted(r.broken, "event", "events") + " of the trace whose time cannot be read"})
	}
	return out
}

// numbers returns the steps' own numbers, as in ProfilerStep#5. If those do not rise, it counts from 0.
func numbers(steps []window) []int32 {
	out := make([]int32, len(steps))
	for i := range steps {
		n, err := strconv.ParseInt(strings.TrimPrefix(steps[i].name, stepPrefix), 10, 32)
		if err != nil || n < 0 || n >= math.MaxInt32 || i > 0 && int32(n) <= out[i-1] {
			for i := range out {
				out[i] = int32(i)
			}
			return out
		}
		out[i] = int32(n)
	}
	return out
}

// builder makes the steps and lanes of a session from an account.
type builder struct {
	*account
	zero     int64 // the session's time 0, in the trace's time
	hostOnly bool  // nothing ran on a device, so the host's operators are the work
	index    []int32
	steps    []trace.Step
	spans    []trace.Span
}

// part is the share of a step with one cause.
type part struct {
	cause trace.Cause
	in    ranges
}

// busy returns the time of work in a span: kernels, and copies within a device's memory. If nothing ran
// on a device, it is the host's work. That includes calls of a runtime, because the trace does not say
// what they waited for.
func (b *builder) busy(w span) ranges {
	in := func(role trace.Role) []span { return b.roles[role].within(w) }
	if b.hostOnly { // an operator hides communication beside it, as a kernel does
		works := b.works.within(w).and(in(trace.RoleCommunication))
		return merged(slices.Concat(in(trace.RoleCPU), in(trace.RoleRuntime), works))
	}
	return merged(slices.Concat(in(trace.RoleKernel), b.roles[trace.RoleMemcpy].within(w).and(b.inside.within(w)).without(b.talks.within(w))))
}

// parts divides the time without computing by cause. The cause of a call of the runtime is its
// purpose.
func (b *builder) parts(w span) []part {
	in := func(role trace.Role) ranges { return b.roles[role].within(w) }
	if b.hostOnly {
		return []part{
			{trace.CauseCommunication, in(trace.RoleCommunication).without(b.works.within(w))},
			{trace.CauseDataLoader, in(trace.RoleDataLoader)},
			{trace.CauseUnknown, in(trace.RoleOther)},
		}
	}
	talks := b.talks.within(w) // a copy at the same time does not hide it
	copied := in(trace.RoleMemcpy).without(b.inside.within(w)).without(talks)
	across := copied.and(b.across.within(w))
	copied = copied.without(across)
	back := copied.and(b.back.within(w))
	other := in(trace.RoleOther)
	python := other.and(b.python.within(w))
	runtime := in(trace.RoleRuntime)
	blind := runtime.and(b.blind.within(w))
	runtime = runtime.without(blind)
	allocs := runtime.and(b.allocs.within(w))
	runtime = runtime.without(allocs)
	inits := runtime.and(b.inits.within(w))
	runtime = runtime.without(inits)
	syncs := runtime.and(b.syncs.within(w))
	return []part{
		{trace.CauseCommunication, talks}, {trace.CauseDataLoader, in(trace.RoleDataLoader)}, {trace.CauseUnknown, other.without(python)},
		{trace.CauseUnknown, blind}, {trace.CauseCommunication, across}, {trace.CauseSync, back}, {trace.CauseCopy, copied.without(back)}, {trace.CauseCopy, in(trace.RoleMemset).without(talks)},
		{trace.CauseMemory, allocs}, {trace.CauseInit, inits}, {trace.CauseSync, syncs}, {trace.CauseLaunch, runtime.without(syncs)},
		{trace.CauseLaunch, in(trace.RoleCPU)}, {trace.CauseLaunch, python},
	}
}

// step adds the account of a step.
func (b *builder) step(i int, w *window) {
	s := trace.Step{
		Index: b.index[i], Batch: -1, Correct: -1, Loss: float32(math.NaN()), Start: w.start - b.zero, End: w.end - b.zero,
		Busy: b.busy(w.span).length(), Wait: b.loads.within(w.span).length(), Copy: b.copies.within(w.span).length(),
	}
	for _, p := range b.parts(w.span) {
		s.Stall[p.cause] += p.in.length()
	}
	s.Bytes = b.bytes(w.span)
	b.steps = append(b.steps, s)
}

// lanes adds the spans of a step: of the host, of copies, of the device, and of the device's idle time.
func (b *builder) lanes(index int32, w *window) {
	draw := func(track trace.TrackID, kind trace.Kind, arg uint32, r ranges) {
		for _, s := range r {
			b.spans = append(b.spans, trace.Span{Start: s.start - b.zero, End: s.end - b.zero, Step: index, Batch: -1, Kind: kind, Track: track, Arg: arg})
		}
	}
	draw(trace.TrackCompute, trace.KindCompute, 0, b.busy(w.span))
	for _, s := range b.copies.within(w.span) {
		draw(trace.TrackCopy, trace.KindCopy, uint32(min(b.bytes(s)>>10, math.MaxUint32)), ranges{s})
	}
	loads := b.loads.within(w.span)
	syncs := b.syncs.within(w.span).without(loads)
	draw(trace.TrackStep, trace.KindNext, 0, loads)
	draw(trace.TrackStep, trace.KindSync, 0, syncs)
	if !b.hostOnly {
		draw(trace.TrackStep, trace.KindEnqueue, 0, b.host.within(w.span).without(loads).without(syncs))
	}
	for _, p := range b.parts(w.span) {
		draw(trace.TrackStall, trace.KindStall, uint32(p.cause), p.in)
	}
}

// bytes returns the bytes sent to the device by copies that began in a span.
func (b *builder) bytes(w span) (n int64) {
	i, _ := slices.BinarySearchFunc(b.sent, w.start, func(d deviceEvent, t int64) int { return cmp.Compare(d.start, t) })
	for ; i < len(b.sent) && b.sent[i].start < w.end; i++ {
		n += b.sent[i].bytes
	}
	return n
}
