package trace

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func knobGen() *rapid.Generator[Knob] {
	return rapid.Custom(func(t *rapid.T) Knob {
		return Knob{rapid.String().Draw(t, "name"), rapid.String().Draw(t, "value")}
	})
}

// sessionGen draws a session with everything a file holds.
func sessionGen() *rapid.Generator[*Session] {
	return rapid.Custom(func(t *rapid.T) *Session {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		m := Meta{
			ID: text("id"), Version: text("version"), Command: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "command"),
			Started: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "started"), 123456789).UTC(),
			Device:  text("device"), DeviceKind: "emu", Emulated: rapid.Bool().Draw(t, "emulated"), Model: text("model"),
			Params: rapid.Int64().Draw(t, "params"), Samples: rapid.Int64().Draw(t, "samples"), Seed: rapid.Int64().Draw(t, "seed"),
			Host:  rapid.SliceOfN(knobGen(), 0, 3).Draw(t, "host"),
			Specs: []KnobSpec{{Name: text("spec"), Type: "int", Max: 64, Values: []string{"1", "2"}}},
		}
		s := NewSession(m)
		b := batch{now: rapid.Int64Range(0, 1<<40).Draw(t, "now")}
		for i := range rapid.Int32Range(0, 4).Draw(t, "segments") {
			b.segments = append(b.segments, Segment{
				Index: i, Start: rapid.Int64().Draw(t, "start"), End: 1 + rapid.Int64Range(0, 1<<40).Draw(t, "end"),
				FirstStep: rapid.Int32().Draw(t, "first"), Knobs: rapid.SliceOfN(knobGen(), 0, 4).Draw(t, "knobs"),
				Reason: text("reason"), TransitionSteps: rapid.Int32().Draw(t, "steps"), Transition: rapid.Int64().Draw(t, "ns"),
			})
		}
		for i := range rapid.Int32Range(0, 30).Draw(t, "steps") {
			st := Step{
				Index: i, Epoch: rapid.Int32().Draw(t, "epoch"), Segment: rapid.Int32().Draw(t, "segment"), Batch: rapid.Int32().Draw(t, "batch"),
				Samples: rapid.Int32().Draw(t, "samples"), Correct: rapid.Int32().Draw(t, "correct"),
				Loss:  rapid.OneOf(rapid.Float32(), rapid.Just(float32(math.NaN())), rapid.Just(float32(math.Inf(1)))).Draw(t, "loss"),
				Flags: rapid.Uint16().Draw(t, "flags"), Start: rapid.Int64().Draw(t, "start"), End: rapid.Int64().Draw(t, "end"),
				Busy: rapid.Int64().Draw(t, "busy"), Wait: rapid.Int64().Draw(t, "wait"), Load: rapid.Int64().Draw(t, "load"),
				Copy: rapid.Int64().Draw(t, "copy"), Bytes: rapid.Int64().Draw(t, "bytes"),
			}
			for c := range NumCauses {
				if rapid.Bool().Draw(t, "stalled") {
					st.Stall[c] = rapid.Int64().Draw(t, "stall")
				}
			}
			b.steps = append(b.steps, st)
		}
		b.spans = rapid.SliceOfN(spanGen(), 0, 200).Draw(t, "spans")
		for range rapid.IntRange(0, 5).Draw(t, "notes") {
			b.notes = append(b.notes, Note{rapid.Int64().Draw(t, "t"), "warn", text("note")})
		}
		for range rapid.IntRange(0, 9).Draw(t, "points") {
			b.gauges = append(b.gauges, gauge{
				rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "gauge"),
				Point{rapid.Int64().Draw(t, "t"), rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN())).Draw(t, "v")},
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "ops") {
			b.ops = append(b.ops, OpTime{
				Segment: rapid.Int32().Draw(t, "segment"), Name: text("name"), Layer: text("layer"), Phase: text("phase"), Variant: text("variant"),
				Calls: rapid.Int64().Draw(t, "calls"), Total: rapid.Int64().Draw(t, "ns"), Min: rapid.Int64().Draw(t, "min"), Max: rapid.Int64().Draw(t, "max"),
				FLOPs: rapid.Float64().Draw(t, "flops"), Bytes: math.NaN(),
			})
		}
		b.drops[rapid.IntRange(0, NumTracks-1).Draw(t, "track")] = rapid.Int64Range(0, 1<<50).Draw(t, "drops")
		s.add(&b)
		s.finish(Outcome{
			Ended: rapid.Int64Range(0, 1<<41).Draw(t, "ended"), Status: "finished", Error: text("error"), PeakBytes: rapid.Int64().Draw(t, "peak"),
		})
		return s
	})
}

var sameSnapshot = cmp.Options{
	cmpopts.EquateNaNs(), cmpopts.EquateEmpty(),
	cmp.AllowUnexported(Snapshot{}, Digest{}, Tally{}, Epoch{}, Distribution{}, Blocks{}),
	cmp.Comparer(func(a, b History) bool {
		return a.Bucket == b.Bucket && a.Open == b.Open && slices.Equal(a.Points, b.Points)
	}), // may be long
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".generation" || p.Last().String() == ".older" }, cmp.Ignore()),
}

func snapshotOf(s *Session) *Snapshot {
	snap := s.Snapshot(math.MinInt64, math.MaxInt64)
	slices.SortFunc(snap.Spans, allOrdered)
	return snap
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
	st, err := CreateStore(path, Meta{ID: "some", Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.write(someBatch(0, 200)); err != nil {
		t.Fatal(err)
	}
	if err := st.finish(Outcome{Status: "finished", Ended: 99}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

func someBatch(first, n int) *batch {
	b := &batch{now: int64(first+n) * 1e6}
	if first == 0 {
		b.segments = []Segment{{Index: 0, Knobs: []Knob{{"num_workers", "2"}}, Reason: "start"}}
	}
	for i := first; i < first+n; i++ {
		t := int64(i) * 1e6
		b.steps = append(b.steps, Step{Index: int32(i), Start: t, End: t + 1e6, Busy: 6e5, Stall: [NumCauses]int64{CauseDecode: 3e5, CauseCopy: 1e5}})
		for w := range 8 {
			b.spans = append(b.spans, Span{Start: t + int64(w), End: t + 9e5, Step: -1, Batch: int32(i), Kind: KindDecode, Track: Worker(w)})
		}
	}
	b.notes = []Note{{b.now, "info", "a note"}}
	b.gauges = []gauge{{"nvml_util", Point{b.now, 97}}}
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
	if _, err := CreateStore(path, Meta{}); err == nil || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("replacing a session: %v", err)
	}
}

func TestOpenWhileWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x"+Ext)
	st, err := CreateStore(path, Meta{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := st.write(someBatch(i*10, 10)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
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
	st, err := CreateStore(path, Meta{})
	if err != nil {
		t.Fatal(err)
	}
	st.limit = 2 << 10
	for i := range 40 {
		if err := st.write(someBatch(i*50, 50)); err != nil {
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
	n := len(snap.Spans)
	if n == 0 || n > 8000 {
		t.Fatalf("%d spans, want some of 16000", n)
	}
	if first, last := snap.Spans[0].Batch, snap.Spans[n-1].Batch; last != 1999 || int(last-first+1)*8 != n {
		t.Errorf("%d spans of batches %d to %d: not the most recent ones", n, first, last)
	}
}

// A file written when the causes and kinds had other numbers, and one cause that
// has gone since, still means the same.
func TestOldNumbersReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Ext)
	st, err := CreateStore(path, Meta{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`DELETE FROM names`,
		`INSERT INTO names VALUES('kind', 1, 'stall'), ('kind', 2, 'read'), ('kind', 3, 'levitate')`,
		`INSERT INTO names VALUES('cause', 0, 'copy'), ('cause', 1, 'gremlins')`,
		`INSERT INTO steps VALUES(0,0,0,0,1,1,0.5,0,0,100,40,0,0,0,0,'copy 10 gremlins 30 decode 20',NULL)`,
	} {
		if _, err := st.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	spans := []Span{{Start: 1, Kind: 1, Arg: 0}, {Start: 2, Kind: 1, Arg: 1}, {Start: 3, Kind: 2, Arg: 9}, {Start: 4, Kind: 3}, {Start: 5, Kind: 1, Arg: 77}}
	if err := st.write(&batch{spans: spans}); err != nil {
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
	want := []Span{
		{Start: 1, Kind: KindStall, Arg: uint32(CauseCopy)}, {Start: 2, Kind: KindStall, Arg: uint32(CauseUnknown)},
		{Start: 3, Kind: KindRead, Arg: 9}, {Start: 4, Kind: KindNone}, {Start: 5, Kind: KindStall, Arg: uint32(CauseUnknown)},
	}
	if d := cmp.Diff(want, snap.Spans); d != "" {
		t.Error(d)
	}
	if got := snap.Recent[0].Stall; got != [NumCauses]int64{CauseCopy: 10, CauseUnknown: 30, CauseDecode: 20} {
		t.Errorf("stalls %v", got)
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
}

// BenchmarkStoreWrite is one write of half a second of a run: 15,000 spans, 50
// steps.
func BenchmarkStoreWrite(b *testing.B) {
	st, err := CreateStore(filepath.Join(b.TempDir(), "x"+Ext), Meta{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	step := int32(0)
	t := int64(0)
	for b.Loop() {
		var bt batch
		for range 50 {
			bt.steps = append(bt.steps, Step{Index: step, Start: t, End: t + 10e6, Stall: [NumCauses]int64{CauseDecode: 3e6}})
			for j := range int64(300) {
				x := uint64(t+j) * 0x9e3779b97f4a7c15
				start := t + j*33_000 + int64(x>>50)
				bt.spans = append(bt.spans, Span{Start: start, End: start + 900_000 + int64(x>>40&0xffff), Step: -1, Batch: step + int32(j%64), Kind: KindDecode, Track: Worker(int(j % 64))})
			}
			step++
			t += 10e6
		}
		if err := st.write(&bt); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(st.bytes)/float64(b.N)/15000, "B/span")
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x"+Ext)
	st, err := CreateStore(path, Meta{})
	if err != nil {
		b.Fatal(err)
	}
	const steps = 20_000
	for i := range steps / 100 {
		if err := st.write(someBatch(i*100, 100)); err != nil {
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
