package trace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dev.gpustall/engine/base/knob"
)

// spanGen draws spans as a run makes them, and some as it should not.
func spanGen() *rapid.Generator[Span] {
	return rapid.Custom(func(t *rapid.T) Span {
		start := rapid.Int64Range(-10, 10_000).Draw(t, "start")
		kind := Kind(rapid.IntRange(0, int(NumKinds)-1).Draw(t, "kind"))
		arg := rapid.Uint32().Draw(t, "arg")
		if kind == KindStall {
			arg %= uint32(NumCauses)
		}
		return Span{
			Start: start, End: start + rapid.OneOf(rapid.Int64Range(-2, 30), rapid.Int64Range(0, 5000)).Draw(t, "length"),
			Step: rapid.Int32Range(-1, math.MaxInt32).Draw(t, "step"), Batch: rapid.Int32().Draw(t, "batch"),
			Kind: kind, Track: TrackID(rapid.IntRange(0, NumTracks-1).Draw(t, "track")),
			Flags: rapid.Uint16().Draw(t, "flags"), Arg: arg,
		}
	})
}

func allOrdered(a, b Span) int {
	if c := compareSpans(a, b); c != 0 {
		return c
	}
	for _, d := range []int64{int64(a.Step) - int64(b.Step), int64(a.Batch) - int64(b.Batch), int64(a.Flags) - int64(b.Flags), int64(a.Arg) - int64(b.Arg)} {
		if d < 0 {
			return -1
		} else if d > 0 {
			return 1
		}
	}
	return 0
}

// A window holds exactly the spans that overlap it, sorted, however they arrived.
func TestSnapshotWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSession(Meta{})
		var all []Span
		base := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "drains") {
			n := rapid.IntRange(0, 20).Draw(t, "spans")
			if rapid.IntRange(0, 4).Draw(t, "burst") == 0 {
				n = chunkLen + rapid.IntRange(-3, 900).Draw(t, "more")
			}
			drain := make([]Span, 0, n)
			if n < 100 {
				drain = append(drain, rapid.SliceOfN(spanGen(), n, n).Draw(t, "drain")...)
			} else { // drawing thousands is slow: derive them
				x := rapid.Uint64().Draw(t, "seed") | 1
				for range n {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
					start := int64(x % 10_000)
					drain = append(drain, Span{Start: start, End: start + int64(x>>32%200), Track: TrackID(x >> 40 % 80), Arg: uint32(x)})
				}
			}
			for i := range drain {
				drain[i].Start += base
				drain[i].End += base
			}
			all = append(all, drain...)
			base += rapid.Int64Range(0, 3000).Draw(t, "advance")
			s.Add(&Drained{Spans: drain, Now: base})
		}
		for range 5 {
			from := rapid.Int64Range(-100, base+12_000).Draw(t, "from")
			to := from + rapid.OneOf(rapid.Int64Range(-5, 50), rapid.Int64Range(0, 20_000)).Draw(t, "window")
			if to <= 0 {
				continue
			}
			var want []Span
			for _, sp := range all {
				if sp.Start <= to && sp.End >= from {
					want = append(want, sp)
				}
			}
			got := s.Snapshot(from, to).Spans
			if !slices.IsSortedFunc(got, compareSpans) {
				t.Fatalf("window [%d, %d] is not sorted", from, to)
			}
			slices.SortFunc(want, allOrdered)
			slices.SortFunc(got, allOrdered)
			if !slices.Equal(got, want) {
				t.Fatalf("window [%d, %d]: got %d spans, want %d", from, to, len(got), len(want))
			}
		}
	})
}

func TestSnapshotRelativeToNow(t *testing.T) {
	s := NewSession(Meta{})
	s.Add(&Drained{Now: 1000, Spans: []Span{{Start: 100, End: 200}, {Start: 650, End: 700}, {Start: 900, End: 950}}})
	if got := s.Snapshot(-300, 0).Spans; len(got) != 2 || got[0].Start != 650 {
		t.Errorf("the last 300 ns hold %v", got)
	}
	if got := s.Snapshot(-300, -100).Spans; len(got) != 2 {
		t.Errorf("[-300, -100] holds %v", got)
	}
	if got := s.Snapshot(0, 0).Spans; len(got) != 0 {
		t.Errorf("the present instant holds %v", got)
	}
}

// Only the oldest spans are forgotten, and all of the steps stay.
func TestSessionMemoryIsBounded(t *testing.T) {
	s := NewSession(Meta{})
	s.spans.limit = 4 * chunkLen
	var spans [777]Span
	n := int64(0)
	for range 100 {
		for i := range spans {
			spans[i] = Span{Start: n, End: n + 1}
			n++
		}
		s.Add(&Drained{Spans: spans[:], Steps: []Step{{Index: int32(n)}}, Now: n})
	}
	snap := s.Snapshot(0, math.MaxInt64)
	if got := len(snap.Spans); got > 5*chunkLen || got < 4*chunkLen {
		t.Errorf("%d spans are kept, want about %d", got, 4*chunkLen)
	}
	for i, sp := range snap.Spans {
		if want := n - int64(len(snap.Spans)-i); sp.Start != want {
			t.Fatalf("span %d starts at %d, want %d: not the most recent ones", i, sp.Start, want)
		}
	}
	if len(snap.Recent) != 100 {
		t.Errorf("%d steps are kept, want all 100", len(snap.Recent))
	}
}

// The spans around the start of a segment outlive the limit, in order and once.
func TestSpansAroundSegmentsAreKept(t *testing.T) {
	s := NewSession(Meta{})
	s.spans.limit = 4 * chunkLen
	const starts = 10*chunkLen + 100
	var spans [777]Span
	n := int64(0)
	for i := range 200 {
		for i := range spans {
			spans[i] = Span{Start: n, End: n + 1}
			n++
		}
		b := &Drained{Spans: spans[:], Now: n}
		if i == 0 {
			b.Segments = []Segment{{Index: 0}}
		} else if n >= starts && n < starts+777 {
			b.Segments = []Segment{{Index: 1, Start: starts}}
		}
		s.Add(b)
	}
	have := make([]int, n)
	last := int64(-1)
	for _, sp := range s.Snapshot(0, math.MaxInt64).Spans {
		if sp.Start < last {
			t.Fatalf("a span at %d after one at %d", sp.Start, last)
		}
		last = sp.Start
		have[sp.Start]++
	}
	for i, times := range have {
		at := int64(i)
		near := at < pinReach || at >= starts-pinReach && at < starts+pinReach
		far := at > pinReach && at < starts-pinReach || at > starts+pinReach && at < n-6*chunkLen
		if times > 1 || near && times == 0 || far && times > 0 {
			t.Fatalf("the span at %d is there %d times", at, times)
		}
	}
	if got := s.Snapshot(starts-10, starts+10).Spans; len(got) != 22 {
		t.Errorf("%d spans around the start", len(got))
	}
	for i := range int32(3 * maxPinned) { // a segment in each chunk
		n += chunkLen
		s.Add(&Drained{Spans: []Span{{Start: n}}, Segments: []Segment{{Index: 2 + i, Start: n}}, Now: n})
		s.Add(&Drained{Spans: slices.Repeat([]Span{{Start: n}}, chunkLen-1)})
	}
	if len(s.spans.pinned) != maxPinned || s.spans.pinned[0].first != 0 {
		t.Errorf("%d pinned chunks, the first at %d", len(s.spans.pinned), s.spans.pinned[0].first)
	}
}

// A snapshot never changes, whatever is written after it.
func TestSnapshotsAreStableWhileWritten(t *testing.T) {
	s := NewSession(Meta{ID: "x"})
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-quit:
				return
			default:
			}
			s.Add(&Drained{
				Now: i, Steps: []Step{{Index: int32(i)}}, Spans: []Span{{Start: i, End: i + 1}},
				Notes: []Note{{T: i}}, Gauges: []GaugePoint{{"g", Point{i, float64(i)}}},
				Segments: []Segment{{Index: int32(i / 100), Start: i / 100, Transition: i}},
			})
		}
	})
	for range 4 {
		wg.Go(func() {
			deadline := time.Now().Add(100 * time.Millisecond)
			for time.Now().Before(deadline) {
				snap := s.Snapshot(-500, 0)
				for i, st := range snap.Recent {
					if int(st.Index) != i {
						t.Errorf("step %d has index %d", i, st.Index)
						return
					}
				}
				if n := len(snap.Recent); n > 0 && int64(n-1) != snap.Now {
					t.Errorf("%d steps at now %d", n, snap.Now)
					return
				}
				for i, p := range snap.Gauges["g"] {
					if p.T != int64(i) {
						t.Errorf("point %d is at %d", i, p.T)
						return
					}
				}
				for i, g := range snap.Segments {
					if int(g.Index) != i || i > 0 && snap.Segments[i-1].End != g.Start {
						t.Errorf("segment %d is %+v", i, g)
						return
					}
				}
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	close(quit)
	wg.Wait()
}

// Of too many notes and segments the first and the newest stay, which is said once.
func TestNotesAndSegmentsAreBounded(t *testing.T) {
	s := NewSession(Meta{})
	for i := range int32(3 * MaxRows) {
		s.Add(&Drained{Now: int64(i), Segments: []Segment{{Index: i, Start: int64(i)}}, Notes: []Note{{int64(i), "info", "x"}}})
		if i == MaxRows+10 {
			if n := s.Snapshot(0, 0).Notes; !strings.Contains(fmt.Sprint(n), "more than 1000 segments") {
				t.Error("nothing says that segments were forgotten")
			}
		}
	}
	snap := s.Snapshot(0, 0)
	n := snap.Notes
	if len(n) != MaxRows || len(snap.Segments) != MaxRows {
		t.Fatalf("%d notes and %d segments, want %d", len(n), len(snap.Segments), MaxRows)
	}
	if n[FirstRows-1].T != FirstRows-1 || n[MaxRows-1].T != 3*MaxRows-1 || snap.Noted != 3*MaxRows+1 {
		t.Errorf("the first end with %v, the newest with %v of %d", n[FirstRows-1], n[MaxRows-1], snap.Noted)
	}
	said := 0
	for _, note := range n {
		if strings.Contains(note.Text, "more than 1000 notes") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it is said %d times that notes were forgotten", said)
	}
}

func TestMergeSegments(t *testing.T) {
	have := mergeSegments(nil, []Segment{{Index: 0, Start: 1}})
	next := mergeSegments(have, []Segment{{Index: 1, Start: 50}, {Index: 1, Start: 50, Transition: 7}, {Index: 0, Start: 1, Reason: "start"}})
	want := []Segment{{Index: 0, Start: 1, End: 50, Reason: "start"}, {Index: 1, Start: 50, Transition: 7}}
	if d := cmp.Diff(want, next); d != "" {
		t.Error(d)
	}
	if have[0].End != 0 {
		t.Error("the earlier slice was changed")
	}
}

// BenchmarkSnapshot is what a screen pays a frame: 10 s of 64 workers at 30,000
// spans a second, out of a full memory.
func BenchmarkSnapshot(b *testing.B) {
	for _, window := range []time.Duration{350 * time.Millisecond, 10 * time.Second} {
		b.Run(window.String(), func(b *testing.B) {
			s := NewSession(Meta{})
			const gap = int64(time.Second) / 30_000
			now := int64(0)
			for range 130 {
				spans := make([]Span, 0, 1<<14)
				for i := range cap(spans) {
					spans = append(spans, Span{Start: now, End: now + 64*gap, Track: Worker(i % 64)})
					now += gap
				}
				s.Add(&Drained{Spans: spans, Now: now})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Snapshot(-int64(window), 0)
			}
		})
	}
}

// TestSpecs: what becomes of knobs while a run goes on is the session's, whenever it is drained.
func TestSpecs(t *testing.T) {
	r := NewRecorder(NewClock(), 0)
	s := NewSession(Meta{Specs: []knob.Spec{{Name: "num_workers", Max: 64}}})
	var all Drained
	for _, specs := range [][]knob.Spec{nil, {{Name: "num_workers", Max: 2, Bound: "no memory"}}, nil} {
		if specs != nil {
			r.Specs(specs)
		}
		var b Drained
		r.drain(&b)
		if b.empty() != (specs == nil) {
			t.Errorf("%v: a batch that is empty: %v", specs, b.empty())
		}
		all.append(&b)
	}
	s.Add(&all)
	k := &s.Meta().Specs[0]
	for value, why := range map[string]string{"1": "", "2": "", "3": "no memory", "?": ""} {
		if got := k.Bars(value); got != why {
			t.Errorf("%s: %q, want %q", value, got, why)
		}
	}
}

// TestSilence: a run without a step for far longer than usual is said to have none.
func TestSilence(t *testing.T) {
	s := func(step, now int64) *Snapshot { // 100 steps, in ms
		d := Digest{Last: Step{End: 100 * step * 1e6}}
		d.Total.Steps, d.Total.Wall = 100, d.Last.End
		return &Snapshot{Digest: d, Now: d.Last.End + now*1e6}
	}
	for _, c := range []struct {
		step, now int64
		want      time.Duration
	}{{10, 200, 0}, {10, 2900, 0}, {10, 3100, 3100 * time.Millisecond}, {900, 2900, 0}, {900, 3100, 3100 * time.Millisecond}, {5000, 14900, 0}, {5000, 15100, 15100 * time.Millisecond}} {
		if got := s(c.step, c.now).Silence(); got != c.want {
			t.Errorf("%d ms after steps of %d ms: %s, want %s", c.now, c.step, got, c.want)
		}
	}
}

// TestEpochSamples: an epoch of a PyTorch loop has as many samples as the last one that was run to its end.
func TestEpochSamples(t *testing.T) {
	epoch := func(samples int64, complete bool) *Epoch {
		return &Epoch{Totals: Totals{Samples: samples}, Complete: complete}
	}
	for name, c := range map[string]struct {
		said   int64
		epochs []*Epoch
		want   int64
	}{
		"it has just begun":                 {3200, []*Epoch{epoch(16, false)}, 3200},
		"the data set says too many":        {100000, []*Epoch{epoch(3200, true), epoch(3200, true), epoch(16, false)}, 3200},
		"each worker has the whole":         {3200, []*Epoch{epoch(6400, true), epoch(16, false)}, 6400},
		"no length is said":                 {0, []*Epoch{epoch(3200, true), epoch(3200, true)}, 3200},
		"it was watched from the middle on": {3200, []*Epoch{epoch(1600, true), epoch(16, false)}, 3200},
		"a loop that leaves each":           {3200, []*Epoch{epoch(640, false), epoch(640, false), epoch(640, false)}, 0},
	} {
		s := &Snapshot{Meta: Meta{Samples: c.said, Host: []knob.Setting{{Name: "torch", Value: "2.15.0"}}}}
		s.Epochs = c.epochs
		if got := s.EpochSamples(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
