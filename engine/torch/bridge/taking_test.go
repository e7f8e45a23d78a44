//go:build linux

package bridge

import (
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// sole returns a process with one worker, about which a session is recorded. The returned
// function ends the session and returns what was recorded.
func sole(t *testing.T) (*Bridge, *process, func() *trace.Snapshot) {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	b.Clock.origin = 0
	p := b.process(nobody)
	p.loader = Loader{Trains: true, BatchSize: 4, Knobs: map[string]int{"num_workers": 1, "prefetch_factor": 2}, Live: true, Style: "map"}
	b.main, b.recorder = p, trace.NewRecorder(b.Clock, 0)
	s := trace.NewSession(trace.Meta{})
	c := trace.NewCollector(b.recorder, s, attribution.NewAnalyzer(0), nil)
	b.Control.begin(knobsOf(&p.loader), nil)
	p.begin(b.recorder, 0)
	return b, p, func() *trace.Snapshot {
		p.finish()
		c.Start()
		if err := c.Stop(trace.Outcome{Status: "finished"}); err != nil {
			t.Fatal(err)
		}
		return s.Snapshot(0, 1<<62)
	}
}

// TestBegins: batches with which nothing was learned are no steps, whether the loop learns with the next one or elsewhere.
func TestBegins(t *testing.T) {
	const ms = 1_000_000
	for name, first := range map[string]int32{"with the fourth batch": 3, "with none of them": 4} {
		_, p, end := sole(t)
		for i := range int32(8) {
			at, flags := int64(i)*10*ms+1, uint16(flagTrain)
			if i == 0 {
				flags |= flagFirst
			}
			if i == 4 && first == 4 { // its optimizer showed two steps before
				i, flags = 6, flags|flagFirst
			} else if i > 4 && first == 4 {
				i += 2
			}
			p.loop(&record{Kind: kindNext, Start: at, End: at + 4*ms, Iteration: 1, Batch: i, Step: i, Sample: -1, Arg: 8, Core: int64(8*i + 8), Flags: flags})
			if i == 3 {
				p.hear(&message{Type: "learns", T: at + 5*ms, Step: first, Through: 32})
			}
			p.loop(&record{Kind: kindBody, Start: at + 4*ms, End: at + 10*ms, Iteration: 1, Batch: i, Step: i, Sample: -1, Flags: flagTrain | flagFinal, Core: -1, Waiting: -1})
		}
		s := end()
		want, lost := int64(5), int64(0)
		if first == 4 {
			want, lost = 6, 1 // and one that has only an end
		}
		if s.Total.Steps != want || s.Total.Samples != 8*want || s.Total.Lost != lost || s.Segments[0].FirstStep != first || len(s.Segments) != 1 {
			t.Errorf("%s: %d steps, %d samples, %d lost, segments %+v; want %d, %d, %d", name, s.Total.Steps, s.Total.Samples, s.Total.Lost, s.Segments, want, 8*want, lost)
		}
		if len(s.Notes) != 1 || !strings.Contains(s.Notes[0].Text, units.Counted(int(first), "batch", "batches")) {
			t.Errorf("%s: %v", name, s.Notes)
		}
	}
}

// TestTaking: while the loop takes a ready batch, it waits for what the batch's worker does
// meanwhile.
func TestTaking(t *testing.T) {
	const ms = 1_000_000
	type stretch struct{ from, to, batch int64 }
	w := trace.Worker(0)
	for _, c := range []struct {
		name   string
		lane   trace.TrackID
		ready  int64      // ms: when batch 0 was
		took   [][2]int64 // ms: when the worker began with batches 0, 1, ..., and was done
		until  int64      // ms: the loop waits for batch 0 from 10
		want   []stretch  // -1: for no batch
		beside int64      // the batch waited for last; -1: none
	}{
		{"taken at once", w, 30, [][2]int64{{0, 30}, {30, 90}}, 30, []stretch{{10, 30, 0}}, -1},
		{"at the next one, not done yet", w, 30, [][2]int64{{0, 30}, {30, 0}}, 50, []stretch{{10, 30, 0}, {30, 50, 1}}, 1},
		{"done with the next one meanwhile", w, 30, [][2]int64{{0, 30}, {30, 45}}, 50, []stretch{{10, 30, 0}, {30, 45, 1}, {45, 50, -1}}, 1},
		{"one after the other", w, 30, [][2]int64{{0, 30}, {30, 35}, {36, 44}, {44, 60}}, 50, []stretch{{10, 30, 0}, {30, 35, 1}, {35, 36, -1}, {36, 44, 2}, {44, 50, 3}}, 3},
		{"idle at first", w, 30, [][2]int64{{0, 30}, {40, 60}}, 50, []stretch{{10, 30, 0}, {30, 40, -1}, {40, 50, 1}}, 1},
		{"idle", w, 30, [][2]int64{{0, 30}}, 50, []stretch{{10, 30, 0}, {30, 50, -1}}, -1},
		{"began with the next one afterwards", w, 30, [][2]int64{{0, 30}, {50, 60}}, 50, []stretch{{10, 30, 0}, {30, 50, -1}}, -1},
		{"ready before it was asked for", w, 5, [][2]int64{{0, 5}, {5, 8}, {8, 40}}, 50, []stretch{{10, 40, 2}, {40, 50, -1}}, 2},
		{"nothing on record of how it was made", w, 0, [][2]int64{{0, 0}, {30, 60}}, 50, []stretch{{10, 50, 0}}, -1},
		{"loaded inline", trace.TrackInline, 30, [][2]int64{{0, 30}, {30, 60}}, 50, []stretch{{10, 50, 0}}, -1},
	} {
		_, p, end := sole(t)
		var batches []*batch
		for i, took := range c.took {
			b := &batch{seq: int32(i), lane: c.lane, done: took[1] * ms}
			batches = append(batches, b)
		}
		for i, b := range slices.Backward(batches) { // as if the worker that took another's place is read first
			p.waits.begins(c.lane, begun{c.took[i][0] * ms, b})
		}
		batches[0].done = c.ready * ms
		wait := trace.Span{Kind: trace.KindNext, Start: 10 * ms, End: c.until * ms}
		beside := int64(-1)
		if b := p.waits.taking(&wait, batches[0]); b != nil {
			beside = int64(b.seq)
		}
		p.out.span(trace.TrackStep, wait)
		var got []stretch
		for _, s := range end().Spans {
			if s.Kind == trace.KindNext {
				got = append(got, stretch{s.Start / ms, s.End / ms, int64(s.Batch)})
			}
		}
		slices.SortFunc(got, func(a, b stretch) int { return int(a.from - b.from) })
		if !slices.Equal(got, c.want) || beside != c.beside {
			t.Errorf("%s: waited %v, last beside %d; want %v, %d", c.name, got, beside, c.want, c.beside)
		}
	}
}

// TestAhead: between two readings of the rings, a worker's records are read before the loop's.
// Each wait is still charged to what the worker did at that time. The steps come out once that
// is known.
func TestAhead(t *testing.T) {
	const ms, batches = 1_000_000, 40
	worker := &ring{role: roleWorker, parent: nobody}
	for _, ahead := range []int{0, 2, batches} {
		_, p, end := sole(t)
		var tells []record // what the worker does: a batch every 20 ms
		for i := range int32(batches) {
			at := int64(i) * 20 * ms
			tells = append(tells, record{Kind: kindWait, Start: at, End: at, Batch: i},
				record{Kind: kindBatch, Start: at, End: at + 20*ms, Batch: i, Offset: 19 * ms, Core: -1, Waiting: -1})
		}
		for i := range int32(batches) { // taking a batch lasts 10 ms, in which the worker is at the next one
			ready := int64(i+1) * 20 * ms
			for ; len(tells) > 0 && tells[0].End <= ready+10*ms+int64(ahead)*20*ms; tells = tells[1:] {
				p.work(worker, &tells[0])
			}
			p.loop(&record{Kind: kindNext, Start: max(0, ready-8*ms), End: ready + 10*ms, Batch: i, Step: i, Arg: 4, Flags: flagTrain, Waiting: -1})
			p.loop(&record{Kind: kindBody, Start: ready + 10*ms, End: ready + 12*ms, Batch: i, Step: i, Flags: flagTrain | flagFinal, Waiting: -1})
			if known := len(p.waits.begun[trace.Worker(0)]); known > ahead+3 {
				t.Fatalf("%d batches are remembered, %d read ahead", known, ahead)
			}
		}
		total := end().Total
		if fetch, unexplained := total.Stall[trace.CauseFetch], total.Stall[trace.CauseDataLoader]; unexplained != 10*ms || fetch < batches*16*ms {
			t.Errorf("%d read ahead: %d ms are charged to fetch, %d to the DataLoader; the worker idles in 10 only", ahead, fetch/ms, unexplained/ms)
		}
	}
}

// TestMixed: batches without timed phases divide like the timed batches of the same worker. They
// do not divide like its first batch, which is special, or like another worker's.
func TestMixed(t *testing.T) {
	const ms, batches = 1_000_000, 400
	workers := []*ring{{role: roleWorker, parent: nobody, worker: 0}, {role: roleWorker, parent: nobody, worker: 1}}
	_, p, end := sole(t)
	for i := range int32(batches) { // each takes 20 ms, of which the last one is collation; the loop waits for all
		r, at := workers[i%2], int64(i)*21*ms
		decode := []int64{0, 9, 19}[min(int(i/2), 2)] // the first one's, the second one's; others are not timed
		if r.worker == 1 {
			decode = 0 // it does not decode
		}
		tells := []record{{Kind: kindWait, Start: at, End: at, Batch: i}}
		switch {
		case i < 4:
			tells = append(tells, record{Kind: kindDecode, Start: at, End: at + decode*ms, Batch: i}, record{Kind: kindTransform, Start: at + decode*ms, End: at + 18*ms, Batch: i},
				record{Kind: kindFetch, Start: at + 18*ms, End: at + 19*ms, Batch: i}, record{Kind: kindCollate, Start: at + 19*ms, End: at + 20*ms, Batch: i},
				record{Kind: kindBatch, Start: at, End: at + 20*ms, Batch: i})
		case i < batches/4: // collation has a record of its own
			tells = append(tells, record{Kind: kindFetch, Flags: flagWhole, Start: at, End: at + 19*ms, Batch: i}, record{Kind: kindCollate, Start: at + 19*ms, End: at + 20*ms, Batch: i},
				record{Kind: kindBatch, Start: at, End: at + 20*ms, Batch: i})
		default:
			tells = append(tells, record{Kind: kindBatch, Start: at, End: at + 20*ms, Batch: i, Offset: 19 * ms})
		}
		for k := range tells {
			tells[k].Core, tells[k].Waiting = -1, -1
			p.work(r, &tells[k])
		}
		p.loop(&record{Kind: kindNext, Start: at, End: at + 20*ms, Batch: i, Step: i, Arg: 4, Flags: flagTrain, Waiting: -1})
		p.loop(&record{Kind: kindBody, Start: at + 20*ms, End: at + 21*ms, Batch: i, Step: i, Flags: flagTrain | flagFinal, Waiting: -1})
	}
	total := end().Total
	var load int64
	for cause, want := range map[trace.Cause]int64{
		trace.CauseDecode: 9 * 199, trace.CauseTransform: 18*200 + 18 + 9*199, trace.CauseFetch: batches, trace.CauseCollate: batches,
	} {
		load += total.Stall[cause]
		if got := total.Stall[cause] / ms; got < want-want/25 || got > want+want/25 {
			t.Errorf("%d ms are charged to %v, not %d", got, cause, want)
		}
	}
	if load != batches*20*ms {
		t.Errorf("%d ms are charged", load/ms)
	}
}

// TestRelease: steps come out in order, each when it is known what its worker was at while the
// step waited.
func TestRelease(t *testing.T) {
	busy, done := func() *batch { return new(batch) }, &batch{done: 1}
	for _, c := range []struct {
		name   string
		beside []*batch // of each step; nil: its worker idled
		all    bool
		out    int
	}{
		{"idle", []*batch{nil, nil}, false, 2},
		{"done", []*batch{done, nil}, false, 2},
		{"under way", []*batch{nil, busy(), nil}, false, 1},
		{"under way for longer than it can be", []*batch{busy(), nil, nil, nil, nil}, false, 5},
		{"as long as that", []*batch{busy(), nil, nil, nil}, false, 0},
		{"the end", []*batch{busy(), nil}, true, 2},
	} {
		_, p, _ := sole(t)
		for i, b := range c.beside {
			p.steps.kept = append(p.steps.kept, &open{step: trace.Step{Index: int32(i)}, timed: true, beside: b})
		}
		p.steps.release(c.all)
		if kept := len(p.steps.kept); kept != len(c.beside)-c.out || len(p.steps.untimed) > 0 {
			t.Errorf("%s: of %d steps %d are kept, and %d wait for a GPU; want %d out", c.name, len(c.beside), kept, len(p.steps.untimed), c.out)
		}
	}
}

// TestLanes: a batch that a thread page-locks is not loaded by the loop.
func TestLanes(t *testing.T) {
	for r, want := range map[role]trace.TrackID{roleLoop: trace.TrackStep, roleInline: trace.TrackInline, rolePin: trace.TrackPin} {
		if got := (lanes{}).of(&ring{role: r}); got != want {
			t.Errorf("role %d writes to %s, want %s", r, got, want)
		}
	}
	// The thread of a worker that sends what it made is on that worker's lane, and takes none.
	l := lanes{}
	for pid := range 2 { // a second worker with that number begins before the first has ended
		want := l.of(&ring{role: roleWorker, pid: pid, worker: 3, memory: make([]byte, ringHeader)})
		if got := l.of(&ring{role: roleSender, pid: pid, worker: 3}); got != want || len(l) != pid+1 {
			t.Errorf("what worker 3 in process %d sends is on %s of %d lanes, want %s", pid, got, len(l), want)
		}
	}
}

// TestSampler: the times in which the loop drew indices are the sampler's, wherever they lie in a wait or in
// the making of an iterator. Those of loops that do not train are in no share.
func TestSampler(t *testing.T) {
	const ms = 1_000_000
	_, p, end := sole(t)
	loop := func(kind kind, step int32, flags uint16, from, to int64) {
		p.loop(&record{
			Kind: kind, Iteration: 1, Step: step, Batch: step, Flags: flags, Start: from * ms, End: to * ms, Arg: 4, Core: -1, Waiting: -1, Sample: -1,
		})
	}
	r := &ring{role: roleWorker, parent: nobody}
	for i, done := range []int64{20, 55} {
		p.work(r, &record{Kind: kindBatch, Iteration: 1, Batch: int32(i), Start: (done - 15) * ms, End: done * ms, Offset: 14 * ms, Core: -1, Waiting: -1, Sample: -1})
	}
	loop(kindSampler, -1, 0, 1, 4) // while the iterator is made
	loop(kindIter, -1, flagTrain, 0, 5)
	loop(kindSampler, -1, 0, 20, 30) // after batch 0 came
	loop(kindNext, 0, flagTrain|flagFirst, 5, 30)
	loop(kindBody, 0, flagTrain|flagFinal, 30, 40)
	loop(kindSampler, -1, 0, 41, 45)
	loop(kindSampler, -1, 0, 58, 60)
	loop(kindNext, 1, flagTrain, 40, 60)
	loop(kindBody, 1, flagTrain|flagFinal, 60, 70)
	loop(kindSampler, -1, 0, 71, 79) // of an evaluation
	loop(kindNext, -1, flagFirst, 70, 80)
	loop(kindBody, -1, flagFinal, 80, 90)
	snap := end()
	if len(snap.Recent) != 2 {
		t.Fatalf("%d steps", len(snap.Recent))
	}
	for i, want := range []int64{3 + 10, 4 + 2} {
		if st := &snap.Recent[i]; st.Stall[trace.CauseSampler] != want*ms || st.Busy != 10*ms || st.Wait != []int64{30, 20}[i]*ms {
			t.Errorf("step %d: the sampler has %d ms of a wait of %d ms, want %d", i, st.Stall[trace.CauseSampler]/ms, st.Wait/ms, want)
		}
	}
	for _, s := range snap.Spans {
		if s.Kind == trace.KindSampler && s.Start >= 70*ms {
			t.Errorf("an evaluation's sampler has %v", s)
		}
	}
}
