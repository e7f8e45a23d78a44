package attribution

import (
	"testing"

	"dev.gpustall/engine/trace"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// chaos draws spans that overlap, abut, are empty, run backwards, lie outside the
// run or are missing, and the steps they belong to. Batch i belongs to step i;
// batches from 100 on belong to none.
func chaos(t *rapid.T) (spans []trace.Span, steps []trace.Step) {
	n := rapid.Int32Range(0, 5).Draw(t, "steps")
	for i := range n {
		if rapid.IntRange(0, 7).Draw(t, "step dropped") == 0 {
			continue
		}
		steps = append(steps, trace.Step{
			Index: i, Batch: i, Samples: 4,
			Flags: rapid.SampledFrom([]uint16{0, 0, trace.FlagTransition, trace.FlagFirstOfEpoch}).Draw(t, "flags"),
		})
	}
	kinds := []trace.Kind{
		trace.KindCompute, trace.KindCompute, trace.KindNext, trace.KindNext, trace.KindSampler, trace.KindCopy, trace.KindEnqueue, trace.KindSync,
		trace.KindStarved, trace.KindTransition, trace.KindRebuild, trace.KindPause, trace.KindRead, trace.KindDecode, trace.KindTransform,
		trace.KindFirstByte, trace.KindFetch, trace.KindCollate, trace.KindPin, trace.KindBlocked, trace.KindStart, trace.KindOp, trace.KindQueue, trace.KindQueue, trace.KindQueue, trace.KindNone,
	}
	sampled := map[int64]bool{}
	for range rapid.IntRange(0, 40).Draw(t, "spans") {
		start := rapid.Int64Range(-10, 110).Draw(t, "start")
		s := trace.Span{
			Start: start, End: start + rapid.Int64Range(-3, 25).Draw(t, "length"),
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Step: rapid.Int32Range(-1, n).Draw(t, "step"), Arg: rapid.Uint32Range(0, 4).Draw(t, "arg"),
		}
		switch {
		case s.Kind <= trace.KindStart:
			s.Step, s.Batch = -1, rapid.SampledFrom([]int32{-1, 0, 1, 2, 3, 4, 100}).Draw(t, "batch")
			s.Track = rapid.SampledFrom([]trace.TrackID{trace.TrackInline, trace.Worker(0), trace.Worker(1)}).Draw(t, "worker")
		case s.Kind == trace.KindQueue:
			if sampled[start] { // of two at the same time, the one fed later would count
				continue
			}
			sampled[start] = true
			s.Track, s.Batch, s.Step, s.End = trace.TrackQueue, s.Step, -1, start
		case s.Kind == trace.KindCompute:
			s.Track, s.Batch = trace.TrackCompute, s.Step
		case s.Kind == trace.KindCopy:
			s.Track, s.Batch = trace.TrackCopy, s.Step
		default:
			s.Batch = s.Step
			if s.Step < 0 && rapid.Bool().Draw(t, "unused batch") {
				s.Batch = 100
			}
		}
		spans = append(spans, s)
	}
	return spans, steps
}

// TestAttributeFollowsTheDefinition: every instant is busy or has exactly one cause, which is the
// one that the definition names. Attribute agrees with the oracle ns by ns.
func TestAttributeFollowsTheDefinition(t *testing.T) {
	defer func(was int64) { launchLatency = was }(launchLatency)
	rapid.Check(t, func(t *rapid.T) {
		launchLatency = rapid.Int64Range(0, 40).Draw(t, "latency")
		spans, steps := chaos(t)
		from := rapid.Int64Range(-5, 30).Draw(t, "from")
		to := from + rapid.Int64Range(-2, 120).Draw(t, "length")
		got := Attribute(spans, steps, from, to)
		checkExact(t, got, from, max(from, to))
		want, instants := newNaive(spans).attribute(steps, from, max(from, to))
		for i := range got.Steps {
			got.Steps[i].Bytes = 0 // from Arg; tested elsewhere
		}
		if d := cmp.Diff(want, got.Steps, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		have := make([]int, len(instants))
		for i := range have {
			have[i] = -1
		}
		for _, s := range got.Stalls {
			for at := s.Start; at < s.End; at++ {
				have[at-from] = int(s.Cause)
			}
		}
		if d := cmp.Diff(instants, have, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// checkExact verifies the arithmetic that every number on the screen rests on:
// windows tile the run, and busy + all causes = wall, step by step and overall.
func checkExact(t interface{ Fatalf(string, ...any) }, tl Timeline, from, to int64) {
	cursor := from
	var busy int64
	var stalls [trace.NumCauses]int64
	for _, s := range tl.Steps {
		if s.Start != cursor || s.End < s.Start {
			t.Fatalf("step %d's window is [%d, %d] after %d", s.Index, s.Start, s.End, cursor)
		}
		cursor = s.End
		sum := s.Busy
		for c, ns := range s.Stall {
			if ns < 0 {
				t.Fatalf("step %d lost %d ns to %s", s.Index, ns, trace.Cause(c))
			}
			sum += ns
			stalls[c] += ns
		}
		if sum != s.End-s.Start {
			t.Fatalf("step %d: busy and causes make %d of %d ns", s.Index, sum, s.End-s.Start)
		}
		busy += s.Busy
	}
	if tl.Wall != to-from || cursor > to {
		t.Fatalf("wall is %d, the windows end at %d, of [%d, %d]", tl.Wall, cursor, from, to)
	}
	var idle, last int64 = 0, from
	for _, s := range tl.Stalls {
		if s.Start < last || s.End <= s.Start || s.End > to {
			t.Fatalf("stall %+v after %d", s, last)
		}
		last = s.End
		idle += s.End - s.Start
		if s.Step >= 0 {
			stalls[s.Cause] -= s.End - s.Start
		}
	}
	if tl.Busy+idle != tl.Wall {
		t.Fatalf("busy %d and idle %d of %d ns", tl.Busy, idle, tl.Wall)
	}
	if tl.Busy < busy {
		t.Fatalf("the steps are busy %d ns, the whole %d", busy, tl.Busy)
	}
	if stalls != [trace.NumCauses]int64{} {
		t.Fatalf("the steps' sums and their stalls differ by %v", stalls)
	}
}

// TestAnalyzerInAnyPieces: an analyzer that is fed in pieces gives the same as one that is fed
// everything at once.
func TestAnalyzerInAnyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans, steps := chaos(t)
		want := Attribute(spans, steps, 0, 120)
		// Spans of a step come no later than the step; all others come first.
		due := func(s trace.Span) int {
			for i, st := range steps {
				if s.Step >= 0 && st.Index >= s.Step {
					return i
				}
			}
			if s.Step >= 0 {
				return len(steps)
			}
			return 0
		}
		chunks := make([][]trace.Span, len(steps)+1)
		for _, s := range spans {
			at := rapid.IntRange(0, due(s)).Draw(t, "fed with")
			chunks[at] = append(chunks[at], s)
		}
		a := newAnalyzer(0, 120)
		var got Timeline
		got.Wall = 120
		pending := 0
		feed := func(spans []trace.Span, steps []trace.Step) {
			done, stalls := a.Feed(spans, steps)
			for _, s := range done {
				got.Busy += s.Busy
			}
			got.Steps = append(got.Steps, done...)
			got.add(stalls)
		}
		for i, c := range chunks {
			for len(c) > 0 && rapid.Bool().Draw(t, "split") {
				n := rapid.IntRange(1, len(c)).Draw(t, "n")
				feed(c[:n], steps[pending:min(i, len(steps))])
				pending = min(i, len(steps))
				c = c[n:]
			}
			feed(c, steps[pending:min(i+1, len(steps))])
			pending = min(i+1, len(steps))
		}
		got.add(a.Finish(120))
		got.Busy += a.tailBusy
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// TestRules checks the rules one by one, on timelines small enough to read.
func TestRules(t *testing.T) {
	const w0, w1 = trace.TrackWorker0, trace.TrackWorker0 + 1
	compute := func(step int32, from, to int64) trace.Span {
		return trace.Span{Start: from, End: to, Step: step, Batch: step, Kind: trace.KindCompute, Track: trace.TrackCompute}
	}
	host := func(k trace.Kind, step int32, from, to int64) trace.Span {
		return trace.Span{Start: from, End: to, Step: step, Batch: step, Kind: k, Track: trace.TrackStep}
	}
	load := func(k trace.Kind, track trace.TrackID, batch int32, from, to int64) trace.Span {
		return trace.Span{Start: from, End: to, Step: -1, Batch: batch, Kind: k, Track: track}
	}
	blocked := func(why trace.BlockReason, track trace.TrackID, from, to int64) trace.Span {
		return trace.Span{Start: from, End: to, Step: -1, Batch: -1, Kind: trace.KindBlocked, Track: track, Arg: uint32(why)}
	}
	queue := func(at int64, ready uint32, held int32) trace.Span {
		return trace.Span{Start: at, End: at, Step: -1, Batch: held, Kind: trace.KindQueue, Track: trace.TrackQueue, Arg: ready}
	}
	mixed := func(track trace.TrackID, batch int32, from, to int64) trace.Span {
		s := load(trace.KindFetch, track, batch, from, to)
		s.Arg = uint32(trace.MixOf(&[trace.NumPhases]int64{trace.KindDecode - trace.KindRead: 3, trace.KindTransform - trace.KindRead: 1, trace.KindFetch - trace.KindRead: 1}))
		return s
	}
	type sum = map[trace.Cause]int64
	for _, c := range []struct {
		name  string
		spans []trace.Span // step 0 computes in [0, 10), step 1 in [90, 100); the window is [10, 100)
		flags uint16
		want  sum
	}{
		{"nothing known", nil, 0, sum{trace.CauseUnknown: 80}},
		{"phases and hand-over", []trace.Span{
			host(trace.KindNext, 1, 5, 90), load(trace.KindRead, w0, 1, 0, 30), load(trace.KindDecode, w0, 1, 30, 60), load(trace.KindCollate, w0, 1, 62, 70),
		}, 0, sum{trace.CauseRead: 20, trace.CauseDecode: 32, trace.CauseCollate: 28}},
		{"a fetch that divides as others did", []trace.Span{
			host(trace.KindNext, 1, 5, 90), mixed(w0, 1, 0, 60), load(trace.KindCollate, w0, 1, 60, 90),
		}, 0, sum{trace.CauseDecode: 30, trace.CauseTransform: 10, trace.CauseFetch: 10, trace.CauseCollate: 30}},
		{"inline, before such a fetch", []trace.Span{
			host(trace.KindNext, 1, 10, 90), mixed(trace.TrackInline, 1, 50, 90),
		}, 0, sum{trace.CauseDecode: 24 + 24, trace.CauseTransform: 8 + 8, trace.CauseFetch: 8 + 8}},
		{"on another batch", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindTransform, w0, 7, 0, 50), load(trace.KindPin, w0, 1, 50, 90),
		}, 0, sum{trace.CauseWorkers: 40, trace.CausePin: 40}},
		{"prefetch limit, then slot", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindTransform, w0, 0, 0, 10), blocked(trace.BlockPrefetch, w0, 10, 30), blocked(trace.BlockSlot, w0, 30, 50), load(trace.KindRead, w0, 1, 50, 90),
		}, 0, sum{trace.CausePrefetch: 40, trace.CauseRead: 40}},
		{"another worker's block says nothing", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindTransform, w0, 0, 0, 50), blocked(trace.BlockPrefetch, w1, 10, 50), load(trace.KindRead, w0, 1, 50, 90),
		}, 0, sum{trace.CauseWorkers: 40, trace.CauseRead: 40}},
		{"a worker starts", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindStart, w1, -1, 20, 50), load(trace.KindRead, w1, 1, 50, 90),
		}, 0, sum{trace.CauseStartup: 40, trace.CauseRead: 40}},
		{"a worker had no work until the epoch began", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, w1, 0, 0, 5), blocked(trace.BlockIdle, w1, 5, 50), load(trace.KindRead, w1, 1, 50, 90),
		}, 0, sum{trace.CauseStartup: 40, trace.CauseRead: 40}},
		{"inline", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, trace.TrackInline, 1, 12, 30), load(trace.KindTransform, trace.TrackInline, 1, 30, 89),
		}, 0, sum{trace.CauseRead: 20, trace.CauseTransform: 60}},
		{"spans of the batch lost", []trace.Span{host(trace.KindNext, 1, 10, 90)}, 0, sum{trace.CauseWorkers: 80}},
		{"others are ready", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, w0, 1, 0, 30), load(trace.KindDecode, w0, 1, 30, 85), load(trace.KindRead, w1, 2, 0, 40), queue(0, 0, -1), queue(40, 1, 1), queue(60, 2, 1), queue(85, 3, -1),
		}, 0, sum{trace.CauseRead: 20, trace.CauseDecode: 10 + 5, trace.CauseOrder: 45}},
		{"others are ready and in_order is off", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, w0, 1, 0, 90), queue(20, 3, -1),
		}, 0, sum{trace.CauseRead: 80}},
		{"in_order is turned off meanwhile", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, w0, 1, 0, 90), queue(20, 3, 1), queue(50, 3, -1),
		}, 0, sum{trace.CauseRead: 50, trace.CauseOrder: 30}},
		{"nothing is ready", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, w0, 1, 0, 90), queue(5, 1, 0), queue(10, 0, -1),
		}, 0, sum{trace.CauseRead: 80}},
		{"another batch held others up", []trace.Span{
			host(trace.KindNext, 1, 10, 90), load(trace.KindRead, w0, 1, 0, 90), queue(5, 1, 0),
		}, 0, sum{trace.CauseRead: 80}},
		{"others are ready and the loop does not ask", []trace.Span{
			host(trace.KindSync, 1, 10, 90), load(trace.KindRead, w0, 1, 0, 90), queue(5, 1, 1),
		}, 0, sum{trace.CauseSync: 80}},
		{"the loop draws indices, then waits", []trace.Span{
			host(trace.KindSampler, 1, 10, 50), host(trace.KindNext, 1, 50, 90), load(trace.KindRead, w0, 1, 0, 90),
		}, 0, sum{trace.CauseSampler: 40, trace.CauseRead: 40}},
		{"the indices of the next batch are not why this one is late", []trace.Span{
			host(trace.KindEnqueue, 1, 5, 8), host(trace.KindCopy, 1, 8, 90), host(trace.KindSampler, 2, 8, 95),
		}, 0, sum{trace.CauseCopy: 80}},
		{"copy after data", []trace.Span{
			host(trace.KindNext, 1, 10, 40), load(trace.KindRead, w0, 1, 0, 40), host(trace.KindEnqueue, 1, 40, 45), host(trace.KindCopy, 1, 42, 90),
		}, 0, sum{trace.CauseRead: 30, trace.CauseLaunch: 2, trace.CauseCopy: 48}},
		{"copy queued behind another", []trace.Span{
			host(trace.KindEnqueue, 1, 2, 4), host(trace.KindCopy, 0, 0, 0), host(trace.KindCopy, 1, 60, 90),
		}, 0, sum{trace.CauseCopy: 80}},
		{"waiting for the next batch is not why this one is late", []trace.Span{
			host(trace.KindEnqueue, 1, 5, 8), host(trace.KindCopy, 1, 8, 90), host(trace.KindNext, 2, 8, 95), load(trace.KindRead, w0, 2, 8, 95),
		}, 0, sum{trace.CauseCopy: 80}},
		{"launch", []trace.Span{host(trace.KindEnqueue, 1, 10, 90)}, 0, sum{trace.CauseLaunch: 80}},
		{"launch overhead", []trace.Span{host(trace.KindEnqueue, 1, 0, 20), host(trace.KindCopy, 1, 20, 40)}, 0,
			sum{trace.CauseLaunch: 10 + 50, trace.CauseCopy: 20}},
		{"enqueued before the window", []trace.Span{host(trace.KindEnqueue, 1, 0, 3), host(trace.KindCopy, 1, 3, 5)}, trace.FlagTransition, sum{trace.CauseLaunch: 80}},
		{"another step's enqueue", []trace.Span{host(trace.KindEnqueue, 0, 0, 20)}, 0, sum{trace.CauseLaunch: 10, trace.CauseUnknown: 70}},
		{"sync of the step before", []trace.Span{host(trace.KindSync, 0, 5, 60), host(trace.KindEnqueue, 1, 60, 90)}, 0, sum{trace.CauseSync: 50, trace.CauseLaunch: 30}},
		{"pause hides everything", []trace.Span{host(trace.KindPause, 1, 20, 60), host(trace.KindNext, 1, 10, 90)}, 0, sum{trace.CausePaused: 40, trace.CauseWorkers: 40}},
		{"rebuild", []trace.Span{host(trace.KindRebuild, 1, 10, 40), host(trace.KindTransition, -1, 40, 70)}, 0, sum{trace.CauseTransition: 60, trace.CauseUnknown: 20}},
		{"flagged", nil, trace.FlagTransition, sum{trace.CauseTransition: 80}},
		{"compute in pieces that overlap", []trace.Span{compute(1, 20, 40), compute(1, 30, 50), compute(1, 50, 55)}, 0, sum{trace.CauseUnknown: 45}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spans := append([]trace.Span{compute(0, 0, 10), compute(1, 90, 100)}, c.spans...)
			tl := Attribute(spans, []trace.Step{{Index: 0, Batch: 0}, {Index: 1, Batch: 1, Flags: c.flags}}, 0, 100)
			checkExact(t, tl, 0, 100)
			got := sum{}
			for cause, ns := range tl.Steps[1].Stall {
				if ns != 0 {
					got[trace.Cause(cause)] = ns
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestLateBeginning: a device takes little time to begin. Beyond that, nothing explains the gap.
func TestLateBeginning(t *testing.T) {
	const us = 1000
	spans := []trace.Span{
		{Start: 0, End: 10 * us, Step: 0, Kind: trace.KindCompute, Track: trace.TrackCompute},
		{Start: 0, End: 5 * us, Step: 1, Kind: trace.KindEnqueue, Track: trace.TrackStep},
		{Start: 900 * us, End: 950 * us, Step: 1, Kind: trace.KindCompute, Track: trace.TrackCompute},
	}
	tl := Attribute(spans, []trace.Step{{Index: 0}, {Index: 1}}, 0, 950*us)
	if s := tl.Steps[1].Stall; s[trace.CauseLaunch] != 100*us || s[trace.CauseUnknown] != 790*us {
		t.Errorf("%d ns are launch, %d unknown", s[trace.CauseLaunch], s[trace.CauseUnknown])
	}
}

func TestGapBeforeAndTailAfter(t *testing.T) {
	spans := []trace.Span{
		{Start: 0, End: 30, Step: 0, Kind: trace.KindNext},
		{Start: 30, End: 40, Step: 0, Kind: trace.KindCompute},
		{Start: 40, End: 55, Step: 0, Kind: trace.KindSync},
		{Start: 60, End: 65, Step: -1, Kind: trace.KindCompute},
	}
	tl := Attribute(spans, []trace.Step{{Index: 0}}, 0, 70)
	want := Timeline{
		Steps: []trace.Step{{Index: 0, Start: 0, End: 40, Busy: 10, Wait: 30, Stall: [trace.NumCauses]int64{trace.CauseWorkers: 30}}},
		Stalls: []Stall{
			{0, 30, 0, trace.CauseWorkers}, {40, 55, -1, trace.CauseSync}, {55, 60, -1, trace.CauseUnknown}, {65, 70, -1, trace.CauseUnknown},
		},
		Wall: 70, Busy: 15,
	}
	if d := cmp.Diff(want, tl); d != "" {
		t.Error(d)
	}
}
