package store

import (
	order "cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

func knobGen() *rapid.Generator[knob.Setting] {
	return rapid.Custom(func(t *rapid.T) knob.Setting {
		return knob.Setting{Name: rapid.String().Draw(t, "name"), Value: rapid.String().Draw(t, "value")}
	})
}

// spanGen draws spans as a run makes them, and some as it should not.
func spanGen() *rapid.Generator[trace.Span] {
	return rapid.Custom(func(t *rapid.T) trace.Span {
		start := rapid.Int64Range(-10, 10_000).Draw(t, "start")
		kind := trace.Kind(rapid.IntRange(0, int(trace.NumKinds)-1).Draw(t, "kind"))
		arg := rapid.Uint32().Draw(t, "arg")
		if kind == trace.KindStall {
			arg %= uint32(trace.NumCauses)
		}
		return trace.Span{
			Start: start, End: start + rapid.Int64Range(-2, 5000).Draw(t, "length"),
			Step: rapid.Int32Range(-1, math.MaxInt32).Draw(t, "step"), Batch: rapid.Int32().Draw(t, "batch"),
			Kind: kind, Track: trace.TrackID(rapid.IntRange(0, trace.NumTracks-1).Draw(t, "track")),
			Flags: rapid.Uint16().Draw(t, "flags"), Arg: arg,
		}
	})
}

// allOrdered orders spans by everything that they hold.
func allOrdered(a, b trace.Span) int {
	return order.Or(
		order.Compare(a.Start, b.Start), order.Compare(a.Track, b.Track), order.Compare(b.End, a.End), order.Compare(a.Kind, b.Kind),
		order.Compare(a.Step, b.Step), order.Compare(a.Batch, b.Batch), order.Compare(a.Flags, b.Flags), order.Compare(a.Arg, b.Arg),
	)
}

// sessionGen draws a session with everything a file holds.
func sessionGen() *rapid.Generator[*trace.Session] {
	return rapid.Custom(func(t *rapid.T) *trace.Session {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		m := trace.Meta{
			ID: text("id"), Version: text("version"), Command: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "command"),
			Started: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "started"), 123456789).UTC(),
			Device:  text("device"), DeviceKind: "emu", Emulated: rapid.Bool().Draw(t, "emulated"), Model: text("model"),
			Params: rapid.Int64().Draw(t, "params"), Samples: rapid.Int64().Draw(t, "samples"), Seed: rapid.Int64().Draw(t, "seed"),
			Host:  rapid.SliceOfN(knobGen(), 0, 3).Draw(t, "host"),
			Specs: []knob.Spec{{Name: text("spec"), Type: "int", Max: 64, Values: []string{"1", "2"}}},
		}
		s := trace.NewSession(m)
		b := trace.Drained{Now: rapid.Int64Range(0, 1<<40).Draw(t, "now")}
		for i := range rapid.Int32Range(0, 4).Draw(t, "segments") {
			b.Segments = append(b.Segments, trace.Segment{
				Index: i, Start: rapid.Int64().Draw(t, "start"), End: 1 + rapid.Int64Range(0, 1<<40).Draw(t, "end"),
				FirstStep: rapid.Int32().Draw(t, "first"), Knobs: rapid.SliceOfN(knobGen(), 0, 4).Draw(t, "knobs"),
				Reason: text("reason"), TransitionSteps: rapid.Int32().Draw(t, "steps"), Transition: rapid.Int64().Draw(t, "ns"),
			})
		}
		for i := range rapid.Int32Range(0, 30).Draw(t, "steps") {
			st := trace.Step{
				Index: i, Epoch: rapid.Int32().Draw(t, "epoch"), Segment: rapid.Int32().Draw(t, "segment"), Batch: rapid.Int32().Draw(t, "batch"),
				Samples: rapid.Int32().Draw(t, "samples"), Correct: rapid.Int32().Draw(t, "correct"),
				Loss:  rapid.OneOf(rapid.Float32(), rapid.Just(float32(math.NaN())), rapid.Just(float32(math.Inf(1)))).Draw(t, "loss"),
				Flags: rapid.Uint16().Draw(t, "flags") &^ trace.FlagBegins, Start: rapid.Int64().Draw(t, "start"), End: rapid.Int64().Draw(t, "end"),
				Busy: rapid.Int64().Draw(t, "busy"), Wait: rapid.Int64().Draw(t, "wait"), Load: rapid.Int64().Draw(t, "load"),
				Copy: rapid.Int64().Draw(t, "copy"), Bytes: rapid.Int64().Draw(t, "bytes"), Through: rapid.Int64Range(0, 9).Draw(t, "through"),
			}
			for c := range trace.NumCauses {
				if rapid.Bool().Draw(t, "stalled") {
					st.Stall[c] = rapid.Int64().Draw(t, "stall")
				}
			}
			if rapid.Bool().Draw(t, "measured") {
				ns := rapid.Int64Range(0, 1<<40)
				split := func() trace.Split {
					return trace.Split{Core: ns.Draw(t, "core"), Waiting: ns.Draw(t, "waiting"), Blocked: ns.Draw(t, "blocked")}
				}
				st.Work.Batch = split()
				*st.Work.Phases.Of(rapid.SampledFrom([]trace.Kind{trace.KindRead, trace.KindPin}).Draw(t, "phase")) = split()
			}
			b.Steps = append(b.Steps, st)
		}
		b.Spans = rapid.SliceOfN(spanGen(), 0, 200).Draw(t, "spans")
		for range rapid.IntRange(0, 5).Draw(t, "notes") {
			b.Notes = append(b.Notes, trace.Note{T: rapid.Int64().Draw(t, "t"), Level: "warn", Text: text("note")})
		}
		for range rapid.IntRange(0, 9).Draw(t, "points") {
			b.Gauges = append(b.Gauges, trace.GaugePoint{
				Name:  rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "gauge"),
				Point: trace.Point{T: rapid.Int64().Draw(t, "t"), V: rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN())).Draw(t, "v")},
			})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "ops") {
			b.Ops = append(b.Ops, trace.OpTime{
				ID:      uint32(i),
				Segment: rapid.Int32().Draw(t, "segment"), Name: text("name"), Layer: text("layer"), Phase: text("phase"), Variant: text("variant"),
				Calls: rapid.Int64().Draw(t, "calls"), Total: rapid.Int64().Draw(t, "ns"), Min: rapid.Int64().Draw(t, "min"), Max: rapid.Int64().Draw(t, "max"),
				FLOPs: rapid.Float64().Draw(t, "flops"), Bytes: math.NaN(),
			})
		}
		for i := range rapid.Int32Range(0, 2).Draw(t, "experiments") {
			block := func() trace.Block {
				return trace.Block{Steps: rapid.Int64().Draw(t, "steps"), Active: rapid.Int64().Draw(t, "ns"), Squares: rapid.Float64().Draw(t, "squares")}
			}
			x := trace.Experiment{
				Index: i, Kind: trace.Paired, Start: rapid.Int64().Draw(t, "start"), End: rapid.Int64().Draw(t, "end"), First: rapid.Int32().Draw(t, "first"),
				Last: rapid.Int32().Draw(t, "last"), A: rapid.SliceOfN(knobGen(), 0, 2).Draw(t, "a"), B: rapid.SliceOfN(knobGen(), 0, 2).Draw(t, "b"),
				Kept: rapid.Bool().Draw(t, "kept"), Why: text("why"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "pairs") {
				x.Pairs = append(x.Pairs, trace.Pair{A: block(), B: block(), LeftOut: rapid.Int64().Draw(t, "out")})
			}
			b.Experiments = append(b.Experiments, x)
		}
		b.Drops[rapid.IntRange(0, trace.NumTracks-1).Draw(t, "track")] = rapid.Int64Range(0, 1<<50).Draw(t, "drops")
		s.Add(&b)
		snap := s.Snapshot(math.MinInt64, math.MaxInt64)
		snap.Outcome = trace.Outcome{
			Ended: rapid.Int64Range(0, 1<<41).Draw(t, "ended"), Status: "finished", Error: text("error"), PeakBytes: rapid.Int64().Draw(t, "peak"),
			Drops: snap.Outcome.Drops,
		}
		snap.Now = max(snap.Now, snap.Outcome.Ended)
		return trace.Restore(snap)
	})
}

var sameSnapshot = cmp.Options{
	cmpopts.EquateNaNs(), cmpopts.EquateEmpty(),
	cmp.AllowUnexported(trace.Digest{}, trace.Worst{}, trace.Tally{}, trace.Epoch{}, trace.Distribution{}, trace.Blocks{}),
	cmp.Comparer(func(a, b trace.History) bool {
		return a.Bucket == b.Bucket && a.Open == b.Open && slices.Equal(a.Points, b.Points)
	}), // may be long
	cmp.FilterPath(func(p cmp.Path) bool {
		field, ok := p.Last().(cmp.StructField)
		return ok && (field.Name() == "generation" || field.Name() == "Older")
	}, cmp.Ignore()),
}

func snapshotOf(s *trace.Session) *trace.Snapshot {
	snap := s.Snapshot(math.MinInt64, math.MaxInt64)
	slices.SortFunc(snap.Spans, allOrdered)
	return snap
}

func TestRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sessionGen().Draw(t, "session")
		want := snapshotOf(s)
		if d := cmp.Diff(want, snapshotOf(trace.Restore(snapshotOf(s))), sameSnapshot); d != "" {
			t.Fatal(d)
		}
	})
}

func TestSaveOpenEqual(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		s := sessionGen().Draw(t, "session")
		n++
		path := filepath.Join(dir, fmt.Sprintf("%d %%41?#é%s", n, Ext))
		if err := Save(path, s); err != nil {
			t.Fatal(err)
		}
		back, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(snapshotOf(s), snapshotOf(back), sameSnapshot); d != "" {
			t.Fatal(d)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
}

// writeSome stores a small real session and returns its file, closed.
func writeSome(t testing.TB, path string) {
	t.Helper()
	st, err := Create(path, trace.Meta{ID: "some", Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Write(someBatch(0, 200)); err != nil {
		t.Fatal(err)
	}
	if err := st.Finish(trace.Outcome{Status: "finished", Ended: 99}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// someFile is what writeSome writes.
func someFile(t testing.TB, dir string) []byte {
	t.Helper()
	path := filepath.Join(dir, "good"+Ext)
	writeSome(t, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func someBatch(first, n int) *trace.Drained {
	b := &trace.Drained{Now: int64(first+n) * 1e6}
	if first == 0 {
		b.Segments = []trace.Segment{{Index: 0, Knobs: []knob.Setting{{Name: "num_workers", Value: "2"}}, Reason: "start"}}
	}
	for i := first; i < first+n; i++ {
		t := int64(i) * 1e6
		b.Steps = append(b.Steps, trace.Step{Index: int32(i), Start: t, End: t + 1e6, Busy: 6e5, Stall: [trace.NumCauses]int64{trace.CauseDecode: 3e5, trace.CauseCopy: 1e5}})
		for w := range 8 {
			b.Spans = append(b.Spans, trace.Span{Start: t + int64(w), End: t + 9e5, Step: -1, Batch: int32(i), Kind: trace.KindDecode, Track: trace.Worker(w)})
		}
	}
	b.Notes = []trace.Note{{T: b.Now, Level: "info", Text: "a note"}}
	b.Gauges = []trace.GaugePoint{{Name: "nvml_util", Point: trace.Point{T: b.Now, V: 97}}}
	return b
}

func litter(t *testing.T, dir string) []string {
	t.Helper()
	var extra []string
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != Ext {
			extra = append(extra, f.Name())
		}
	}
	return extra
}

// TestBegins: the steps before the one that the training begins with are taken back, from the session and from its file.
func TestBegins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "begins"+Ext)
	st, err := Create(path, trace.Meta{ID: "begins"})
	if err != nil {
		t.Fatal(err)
	}
	live := trace.NewSession(trace.Meta{ID: "begins"})
	for _, part := range [][2]int{{0, 50}, {50, 50}, {100, 20}} {
		b := someBatch(part[0], part[1])
		for i := range b.Steps {
			b.Steps[i].Samples, b.Steps[i].Through = 4, int64(4*b.Steps[i].Index+4)
			if b.Steps[i].Index == 60 {
				b.Steps[i].Flags = trace.FlagBegins
			}
		}
		if err := st.Write(b); err != nil {
			t.Fatal(err)
		}
		live.Add(b)
	}
	if err := errors.Join(st.Finish(trace.Outcome{Status: "finished"}), st.Close()); err != nil {
		t.Fatal(err)
	}
	back, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*trace.Session{"live": live, "from its file": back} {
		snap := s.Snapshot(0, 0)
		read := 0
		for st, err := range snap.Each(0, math.MaxInt32) {
			if read++; err != nil || st.Index < 60 {
				t.Fatal(name, st, err)
			}
		}
		if tally := snap.Tally(0); read != 60 || snap.Total.Steps != 60 || snap.Total.Samples != 240 || snap.First.Index != 60 || tally.First != 60 || len(snap.Damage) > 0 {
			t.Errorf("%s: %d steps read, %+v, first %d and %d, damage %v", name, read, snap.Total.Steps, snap.First.Index, tally.First, snap.Damage)
		}
	}
}

func TestCloseLeavesOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "er", "x"+Ext)
	writeSome(t, path)
	if l := litter(t, filepath.Dir(path)); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
	if _, err := Open(path); err != nil {
		t.Fatal(err)
	}
	if l := litter(t, filepath.Dir(path)); len(l) > 0 {
		t.Errorf("left behind by a reader: %v", l)
	}
	if _, err := Create(path, trace.Meta{}); err == nil || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("replacing a session: %v", err)
	}
}

func TestOpenWhileWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x"+Ext)
	st, err := Create(path, trace.Meta{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		b := someBatch(i*10, 10)
		if i == 7 { // a knob turns out to be out of reach
			b.Specs = []knob.Spec{{Name: "num_workers", Max: 2, Bound: "no memory"}}
		}
		if err := st.Write(b); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := s.Meta(); m.ID != "x" || (knob.SpecOf(m.Specs, "num_workers") != nil) != (i >= 7) {
			t.Fatalf("after %d writes: %+v", i+1, m)
		}
		snap := snapshotOf(s)
		if len(snap.Recent) != 10*(i+1) || len(snap.Spans) != 80*(i+1) || snap.Outcome.Status != "running" {
			t.Fatalf("after %d writes: %d steps, %d spans, status %s", i+1, len(snap.Recent), len(snap.Spans), snap.Outcome.Status)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if l := litter(t, dir); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
}

func TestSpansAreForgottenByBytesAndStepsNever(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	st.limit = 2 << 10
	for i := range 40 {
		if err := st.Write(someBatch(i*50, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := snapshotOf(s)
	if len(snap.Recent) != 2000 {
		t.Errorf("%d steps, want all 2000", len(snap.Recent))
	}
	recent := slices.DeleteFunc(snap.Spans, func(s trace.Span) bool { return s.Batch < 250 }) // those of the segment's start may stay
	n := len(recent)
	if n == 0 || n > 8000 {
		t.Fatalf("%d spans, want some of 16000", n)
	}
	if first, last := recent[0].Batch, recent[n-1].Batch; last != 1999 || int(last-first+1)*8 != n {
		t.Errorf("%d spans of batches %d to %d: not the most recent ones", n, first, last)
	}
}

// What is around the start of each segment outlives the limit, and the limit holds.
func TestSpansAroundSegmentsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	const batches = 8000 // of 8 spans, one each ms
	st.limit = 12 << 10
	for i := 0; i < batches; i += 50 {
		b := someBatch(i, 50)
		for index, at := range []int{0, 1000, 2010} {
			if index > 0 && at/50 == i/50 {
				b.Segments = []trace.Segment{{Index: int32(index), Start: int64(at) * 1e6}}
			}
		}
		if err := st.Write(b); err != nil {
			t.Fatal(err)
		}
		if st.spans.bytes > st.limit+1<<10 {
			t.Fatalf("%d bytes of spans, the limit is %d", st.spans.bytes, st.limit)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	have := map[int32]int{}
	for _, sp := range snapshotOf(s).Spans {
		have[sp.Batch]++
	}
	for _, want := range []int32{0, 60, 900, 1000, 1100, 1910, 2010, 2100, batches - 1} {
		if have[want] != 8 {
			t.Errorf("%d of 8 spans of batch %d", have[want], want)
		}
	}
	for _, gone := range []int32{500, 1500, 5000} {
		if have[gone] != 0 {
			t.Errorf("%d spans of batch %d, which is near no segment's start", have[gone], gone)
		}
	}
}

// TestOldNumbersReplay: a file in which causes and kinds have other numbers, and one cause that no
// longer exists, still means the same.
func TestOldNumbersReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`DELETE FROM names`,
		`INSERT INTO names (enum, id, name) VALUES('kind', 1, 'stall'), ('kind', 2, 'read'), ('kind', 3, 'levitate')`,
		`INSERT INTO names(enum, id, name) VALUES('cause', 0, 'copy'), ('cause', 1, 'gremlins')`,
		`INSERT INTO steps VALUES(0,0,0,0,1,1,0.5,0,0,100,40,0,0,0,0,0,'copy 10 gremlins 30 decode 20','batch 9 8 7 decode 6 5 4 levitate 1 1 1',NULL)`,
	} {
		if _, err := st.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	spans := []trace.Span{{Start: 1, Kind: 1, Arg: 0}, {Start: 2, Kind: 1, Arg: 1}, {Start: 3, Kind: 2, Arg: 9}, {Start: 4, Kind: 3}, {Start: 5, Kind: 1, Arg: 77}}
	if err := st.Write(&trace.Drained{Spans: spans}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	snap := snapshotOf(s)
	want := []trace.Span{
		{Start: 1, Kind: trace.KindStall, Arg: uint32(trace.CauseCopy)}, {Start: 2, Kind: trace.KindStall, Arg: uint32(trace.CauseUnknown)},
		{Start: 3, Kind: trace.KindRead, Arg: 9}, {Start: 4, Kind: trace.KindNone}, {Start: 5, Kind: trace.KindStall, Arg: uint32(trace.CauseUnknown)},
	}
	if d := cmp.Diff(want, snap.Spans); d != "" {
		t.Error(d)
	}
	if got := snap.Recent[0].Stall; got != [trace.NumCauses]int64{trace.CauseCopy: 10, trace.CauseUnknown: 30, trace.CauseDecode: 20} {
		t.Errorf("stalls %v", got)
	}
	work := trace.Work{Batch: trace.Split{Core: 9, Waiting: 8, Blocked: 7}}
	*work.Phases.Of(trace.KindDecode) = trace.Split{Core: 6, Waiting: 5, Blocked: 4}
	if got := snap.Recent[0].Work; got != work {
		t.Errorf("work %v", got)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	if l, err := List(filepath.Join(dir, "none")); err != nil || len(l) != 0 {
		t.Errorf("a missing folder holds %v, %v", l, err)
	}
	if _, err := Latest(dir); err == nil {
		t.Error("an empty folder has a latest session")
	}
	old := time.Now().Add(-time.Hour)
	for i, name := range []string{"a", "b"} {
		writeSome(t, filepath.Join(dir, name+Ext))
		at := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, name+Ext), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "c"+Ext), []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range l {
		names = append(names, filepath.Base(e.Path))
		if (e.Err != nil) != (filepath.Base(e.Path) == "c"+Ext) {
			t.Errorf("%s: %v", e.Path, e.Err)
		}
	}
	if !slices.Equal(names, []string{"c" + Ext, "b" + Ext, "a" + Ext}) {
		t.Errorf("listed %v", names)
	}
	if l[1].Meta.ID != "some" || l[1].Outcome.Status != "finished" {
		t.Errorf("%+v", l[1])
	}
	if path, err := Latest(dir); err != nil || filepath.Base(path) != "b"+Ext {
		t.Errorf("the latest is %s, %v", path, err)
	}
	digests, err := Digests(dir)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Open(digests[1].Path)
	if err != nil {
		t.Fatal(err)
	}
	has, want := digests[1].Session.Snapshot(0, 0).Gauges, whole.Snapshot(0, 0).Gauges
	if len(want) == 0 || !reflect.DeepEqual(has, want) { // a verdict in a list is the summary's
		t.Errorf("a digest has the gauges %v, the session %v", has, want)
	}
}

// BenchmarkStoreWrite is one write of half a second of a run: 15,000 spans, 50
// steps.
func BenchmarkStoreWrite(b *testing.B) {
	st, err := Create(filepath.Join(b.TempDir(), "x"+Ext), trace.Meta{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	step := int32(0)
	t := int64(0)
	for b.Loop() {
		var bt trace.Drained
		for range 50 {
			bt.Steps = append(bt.Steps, trace.Step{Index: step, Start: t, End: t + 10e6, Stall: [trace.NumCauses]int64{trace.CauseDecode: 3e6}})
			for j := range int64(300) {
				x := uint64(t+j) * 0x9e3779b97f4a7c15
				start := t + j*33_000 + int64(x>>50)
				bt.Spans = append(bt.Spans, trace.Span{Start: start, End: start + 900_000 + int64(x>>40&0xffff), Step: -1, Batch: step + int32(j%64), Kind: trace.KindDecode, Track: trace.Worker(int(j % 64))})
			}
			step++
			t += 10e6
		}
		if err := st.Write(&bt); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(st.spans.bytes)/float64(b.N)/15000, "B/span")
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{})
	if err != nil {
		b.Fatal(err)
	}
	const steps = 20_000
	for i := range steps / 100 {
		if err := st.Write(someBatch(i*100, 100)); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Open(path); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/steps, "ns/step")
}

// TestPrivate: a session is its owner's to read, whatever the umask allows, and so are
// the files that SQLite keeps beside it.
func TestPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a"+Ext)
	st, err := Create(path, trace.Meta{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Write(&trace.Drained{Notes: []trace.Note{{Text: "x"}}}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}

// TestGiant: a sparse file that no run can have written is refused by its size, in
// place of the session and of the log beside it.
func TestGiant(t *testing.T) {
	for _, end := range []string{"", "-wal"} {
		path := filepath.Join(t.TempDir(), "a"+Ext)
		st, err := Create(path, trace.Meta{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path+end, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(1 << 40); err != nil {
			t.Skip(err) // a file system without sparse files
		}
		f.Close()
		if _, err := Open(path); !errors.Is(err, ErrNotSession) || !strings.Contains(err.Error(), "1099511627776 bytes") {
			t.Errorf("%q: %v", end, err)
		}
	}
}

// TestPeers: the newest of what is told of other ranks is read back.
func TestPeers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := Create(path, trace.Meta{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := []trace.Peer{{Rank: 1, Node: "n1"}, {Rank: 3, Node: "n2", Waits: "transforming", Line: "aug.py:42"}}
	for _, peers := range [][]trace.Peer{{{Rank: 1}}, want, nil} {
		if err := st.Write(&trace.Drained{Now: 1, Peers: peers}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(st.Finish(trace.Outcome{Status: "finished"}), st.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot(0, 0).Peers; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
