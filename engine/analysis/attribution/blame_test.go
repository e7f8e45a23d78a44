package attribution

import (
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

const ms = int64(1e6)

// late is a step whose batch a worker built in so many ms, of which the device waited
// starved ms, with one sample slower than the others.
func late(i int32, worker int, load, starved int64, sample int32, took int64) trace.Step {
	s := step(i, 10*ms, map[trace.Cause]int64{trace.CauseDecode: starved * ms})
	s.Start, s.End = int64(i)*1000*ms, int64(i)*1000*ms+10*ms+starved*ms
	s.Batch, s.Load = i, load*ms
	s.Built = trace.Built{Worker: trace.Worker(worker), Slowest: trace.Piece{Sample: sample, Kind: trace.KindDecode, Took: took * ms}}
	return s
}

// TestBlames: the issue's own example, batch and sample, with its file.
func TestBlames(t *testing.T) {
	var steps []trace.Step
	for i := range int32(200) {
		steps = append(steps, late(i, int(i)%4, 20, 0, i, 1))
	}
	bad := late(200, 3, 160, 70, 1234, 118)
	bad.Work.Batch = trace.Split{Core: 100 * ms, Waiting: 31 * ms, Blocked: 29 * ms}
	bad.Work.Phases.Of(trace.KindDecode).Add(trace.Split{Core: 90 * ms, Waiting: 30 * ms})
	bad.Built.Slowest.Split = trace.Split{Core: 87 * ms, Waiting: 31 * ms}
	bad.Flags = trace.FlagInjected
	steps = append(steps, bad)
	changed := late(201, 1, 900, 900, 7, 800)
	changed.Flags = trace.FlagTransition
	cached := late(202, 1, 900, 900, 8, 800)
	cached.Flags = trace.FlagCeiling
	steps = append(steps, changed, cached)
	snap := digested(steps...)
	snap.Now = steps[len(steps)-1].End
	snap.Files = map[int32]string{1234: "cat/00231.jpg"}
	b := Blames(snap)
	if len(b.Batches) != 1 || len(b.Samples) != trace.MaxWorst {
		t.Fatalf("%d batches and %d samples", len(b.Batches), len(b.Samples))
	}
	r := &b.Batches[0]
	if got := r.String(); got != "w3 decode 160 ms, 31.0 ms of it waiting for a core, p99, device idle 70.0 ms" || !r.Injected || r.Note() != "injected" {
		t.Errorf("batch: %s, %q", got, r.Note())
	}
	r = &b.Samples[0]
	if got := r.String(); got != "w3 decode 118 ms, 31.0 ms of it waiting for a core, p99, device idle 70.0 ms" || r.What() != "cat/00231.jpg" || r.Seen != 1 {
		t.Errorf("sample: %s, %s, seen %d", got, r.What(), r.Seen)
	}
	if got := b.Samples[1].What(); !strings.HasPrefix(got, "sample ") || b.Samples[1].Percentile() != "" {
		t.Errorf("an ordinary sample is %s, %s", got, b.Samples[1].Percentile())
	}
	bad.Work.Phases = trace.Phases{} // only for little of the time is the phase known
	bad.Work.Phases.Of(trace.KindCollate).Add(trace.Split{Core: 3 * ms})
	if k := longestPhase(&bad); k != trace.KindDecode {
		t.Errorf("the longest phase is %v", k)
	}
	snap.Now = steps[100].End // as in a replay, where later steps are not known yet
	if b = Blames(snap); len(b.Batches) != 0 {
		t.Errorf("%d batches of the future", len(b.Batches))
	}
}

// TestBlameIsBounded: of very many steps only the worst are kept, whatever their order.
// Each sample is kept once.
func TestBlameIsBounded(t *testing.T) {
	var w trace.Worst
	const n = 100_000
	for i := range int32(n) {
		at := int32(int64(i) * 7919 % n) // each once, in no order
		s := late(i, 0, int64(at), int64(at), at%1000, int64(at))
		w.Add(&s)
	}
	if len(w.Batches) != trace.MaxWorst || len(w.Samples) != trace.MaxWorst {
		t.Fatalf("%d batches and %d samples", len(w.Batches), len(w.Samples))
	}
	for i := range trace.MaxWorst {
		if got := w.Batches[i].Starved(); got != int64(n-1-i)*ms {
			t.Errorf("batch %d starved %d ms", i, got/ms)
		}
		if got := &w.Samples[i]; got.Step.Built.Slowest.Sample != int32(999-i) || got.Step.Built.Slowest.Took != int64(n-1-i)*ms || got.Seen < 1 || got.Seen > n/1000 {
			t.Errorf("sample %d is %d, seen %d times, %d ms", i, got.Step.Built.Slowest.Sample, got.Seen, got.Step.Built.Slowest.Took/ms)
		}
	}
	if r := w.Loads.Rank(int64(n) * 99 / 100 * ms); r < 0.98 || r > 1 {
		t.Errorf("rank %v", r)
	}
}

// TestBlameOfOldSessions: where steps do not say who built their batch, spans do.
func TestBlameOfOldSessions(t *testing.T) {
	s := late(0, 0, 20, 5, -1, 0)
	s.Built = trace.Built{}
	snap := digested(s)
	snap.Now = s.End
	snap.Spans = []trace.Span{{Start: 1, End: 2, Batch: 0, Kind: trace.KindDecode, Track: trace.Worker(5)}}
	b := Blames(snap)
	if len(b.Batches) != 1 || len(b.Samples) != 0 || b.Batches[0].String() != "w5 decode 20.0 ms, device idle 5.00 ms" || b.Batches[0].What() != "" {
		t.Errorf("%+v", b)
	}
}
