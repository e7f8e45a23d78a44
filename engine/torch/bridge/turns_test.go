//go:build linux

package bridge

import (
	"fmt"
	"slices"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestTurns: batches of two loaders make one step. Changes that the script makes between
// steps are known as the script's own.
func TestTurns(t *testing.T) {
	const ms = 1_000_000
	b, p, end := sole(t)
	// In 20 ms each pass waits for 6 and for 4 ms, and computes for 2 and for 8 ms. The record of the first
	// batch contains its phases, the last ms of them collation. The second batch has a record of fetch
	// alone.
	pass := func(step int32) {
		at := int64(step) * 20 * ms
		for i, d := range [][2]int64{{6, 2}, {4, 8}} {
			rec := record{Iteration: uint32(i + 1), Step: step, Batch: step, Flags: flagTrain, Core: -1, Waiting: -1, Sample: -1}
			work := rec
			work.Kind, work.Start, work.End = kindFetch, at, at+d[0]*ms
			if i == 0 {
				work.Kind, work.Offset = kindBatch, 5*ms
			}
			p.work(&ring{role: roleInline, parent: nobody}, &work)
			next := rec
			next.Kind, next.Start, next.End, next.Arg = kindNext, at, at+d[0]*ms, 4
			p.loop(&next)
			at = next.End + d[1]*ms
			body := rec
			body.Kind, body.Start, body.End = kindBody, next.End, at
			if i == 1 {
				body.Flags |= flagFinal
			}
			p.loop(&body)
		}
	}
	for step := range int32(3) {
		pass(step)
	}
	if err := b.Control.Set([]knob.Setting{{Name: "num_workers", Value: "3"}}); err != nil {
		t.Fatal(err)
	}
	say := func(m message) {
		m.T = int64(m.Step) * 20 * ms
		p.hear(&m)
	}
	asked, moved := message{Type: "applied", Step: 3}, message{Type: "moved", Step: 5, Script: true}
	asked.Knobs = map[string]int{"num_workers": 3}
	moved.Loader = Loader{BatchSize: 8, Knobs: map[string]int{"num_workers": 3, "prefetch_factor": 4}}
	say(asked)
	say(moved)
	for step := range int32(4) {
		pass(step + 3)
	}
	snap := end()
	if len(snap.Recent) != 7 || p.totals.steps != 7 || p.totals.sum.Wait != 60*ms || p.totals.sum.Other != 24*ms {
		t.Fatalf("%d steps, %d counted, which waited for %d ns, %d of it for the other loader", len(snap.Recent), p.totals.steps, p.totals.sum.Wait, p.totals.sum.Other)
	}
	for i := range snap.Recent {
		st := &snap.Recent[i]
		if st.Samples != 8 || st.Busy != 10*ms || st.Wait != 10*ms || st.Load != 10*ms || st.Stall[trace.CauseFetch] != 9*ms || st.Stall[trace.CauseCollate] != ms {
			t.Errorf("step %d: %+v", i, st)
		}
	}
	var reasons []string
	var script []bool
	for i := range snap.Segments {
		reasons, script = append(reasons, snap.Segments[i].Reason), append(script, snap.Segments[i].ByScript)
	}
	if want := []string{"start", "num_workers 1 -> 3", "prefetch_factor 2 -> 4, batch_size 4 -> 8" + trace.ByScript}; !slices.Equal(reasons, want) || !slices.Equal(script, []bool{false, false, true}) {
		t.Errorf("segments %q, want %q", reasons, want)
	}
	if snap.Recent[4].Segment != 1 || snap.Recent[5].Segment != 2 {
		t.Errorf("the script's change is not at its step: %d, %d", snap.Recent[4].Segment, snap.Recent[5].Segment)
	}
	if got := b.Control.Requested(); knob.ValueOf(got, "prefetch_factor") != "4" || knob.ValueOf(got, "num_workers") != "3" {
		t.Errorf("what is asked for does not follow the script: %v", got)
	}
}

// TestSeenToTrain: a batch that belonged to no step becomes a step once the loop trains with it. The step is
// as long as what the loop does from then on, and it has the batch.
func TestSeenToTrain(t *testing.T) {
	const ms = 1_000_000
	_, p, end := sole(t)
	for i := range int32(3) {
		at := int64(i) * 20 * ms
		rec := record{Iteration: 1, Step: i, Batch: i, Flags: flagTrain, Core: -1, Waiting: -1, Sample: -1}
		work, next, body := rec, rec, rec
		work.Kind, work.Start, work.End = kindFetch, at, at+6*ms
		p.work(&ring{role: roleInline, parent: nobody}, &work)
		next.Kind, next.Start, next.End, next.Arg = kindNext, at, at+6*ms, 4
		if i == 0 {
			came := next
			came.Step, came.Flags = -1, 0
			p.loop(&came)
			next.Start = next.End
		}
		p.loop(&next)
		body.Kind, body.Start, body.End, body.Flags = kindBody, next.End, at+20*ms, flagTrain|flagFinal
		p.loop(&body)
	}
	s := end()
	if len(s.Recent) != 3 || s.Total.Samples != 12 || p.totals.sum.Wait != 12*ms {
		t.Fatalf("%d steps of %d samples, which waited for %d ns", len(s.Recent), s.Total.Samples, p.totals.sum.Wait)
	}
	for i := range s.Recent {
		st, waited := &s.Recent[i], int64(6*ms)
		if i == 0 {
			waited = 0
		}
		if st.Batch != int32(i) || st.Load != 6*ms || st.Busy != 14*ms || st.Wait != waited {
			t.Errorf("step %d: %+v", i, st)
		}
	}
}

// onGPU returns the records of a step of 20 ms. The loop waits 6 ms for its batch, and the GPU computes for
// 10 ms.
func onGPU(step int32) (next, body, device record) {
	const ms = 1_000_000
	at := int64(step) * 20 * ms
	next = record{Iteration: 1, Step: step, Batch: step, Flags: flagTrain, Core: -1, Waiting: -1, Sample: -1}
	body, device = next, next
	next.Kind, next.Start, next.End, next.Arg = kindNext, at, at+6*ms, 4
	body.Kind, body.Start, body.End, body.Flags = kindBody, next.End, at+20*ms, flagTrain|flagFinal
	device.Kind, device.Start, device.End = kindDevice, at+7*ms, at+17*ms
	return next, body, device
}

// TestOffGPU: when a GPU is no longer watched, the script's time with its batches counts from then on.
func TestOffGPU(t *testing.T) {
	const ms = 1_000_000
	_, p, end := sole(t)
	p.hello.CUDA, p.hello.Threads = "NVIDIA H100", 2
	lost := message{Type: "device", T: 3*20*ms + 1, Step: 3}
	lost.Other = p.hello.CUDA
	for step := range int32(6) {
		next, body, device := onGPU(step)
		if step == 3 {
			p.hear(&lost)
		}
		p.loop(&next)
		p.loop(&body)
		if step < 3 {
			p.loop(&device)
		}
	}
	snap := end()
	var segments []int32
	var busy []int64
	for i := range snap.Recent {
		segments, busy = append(segments, snap.Recent[i].Segment), append(busy, snap.Recent[i].Busy/ms)
	}
	if !slices.Equal(segments, []int32{0, 0, 0, 1, 1, 1}) || !slices.Equal(busy, []int64{10, 10, 10, 14, 14, 14}) {
		t.Errorf("steps of segments %v, busy for %v ms", segments, busy)
	}
	if g := snap.Segments[1]; g.Reason != "NVIDIA H100 is watched no more" || snap.Baseline.Segment != 0 {
		t.Errorf("%+v, baseline %d", g, snap.Baseline.Segment)
	}
	if want := "cpu (the script's own, 2 threads), NVIDIA H100 not watched"; snap.Meta.Device != want {
		t.Errorf("device %q, want %q", snap.Meta.Device, want)
	}
}

// TestOnGPU: a script looks at its data first and uses a GPU later. From then on steps take the
// device's time, even those whose time is never known, and nothing is compared with the steps
// before.
func TestOnGPU(t *testing.T) {
	const ms = 1_000_000
	b, p, end := sole(t)
	seen := message{Type: "device", T: 2*20*ms + 6*ms, Step: 2, Script: true}
	seen.CUDA, seen.UUID = "NVIDIA H100", "0000-1"
	for step := range int32(7) {
		next, body, device := onGPU(step)
		if step == 2 {
			b.view.show(p.facts)
			if uuid, used := b.GPU(); uuid != "" || used {
				t.Error("a GPU is known beforehand")
			}
			p.hear(&seen)
		}
		p.loop(&next)
		p.loop(&body)
		if step > 1 && step != 4 && step != 6 {
			p.loop(&device)
		}
	}
	snap := end()
	var index, segments []int32
	var busy []int64
	for i := range snap.Recent {
		st := &snap.Recent[i]
		index, segments, busy = append(index, st.Index), append(segments, st.Segment), append(busy, st.Busy/ms)
	}
	if !slices.Equal(index, []int32{0, 1, 2, 3, 4, 5, 6}) || !slices.Equal(segments, []int32{0, 0, 1, 1, 1, 1, 1}) || !slices.Equal(busy, []int64{14, 14, 10, 10, 0, 10, 0}) {
		t.Errorf("steps %v of segments %v, busy for %v ms", index, segments, busy)
	}
	if got := (trace.Device{Name: snap.Meta.Device, Kind: snap.Meta.DeviceKind}); got != p.hello.Device() || got.Kind != "cuda" {
		t.Errorf("%+v", got)
	}
	for name, h := range map[string]Hello{
		"cpu (the script's own, 1 thread)": {Threads: 1}, "cpu (the script's own, 2 threads), xpu not watched": {Threads: 2, Other: "xpu"},
	} {
		if got := h.Device(); got != (trace.Device{Name: name, Kind: "cpu"}) {
			t.Errorf("%+v", got)
		}
	}
	b.view.show(p.facts)
	if uuid, used := b.GPU(); uuid != "0000-1" || !used {
		t.Errorf("the GPU is %q, used %v", uuid, used)
	}
	if spec := knob.SpecOf(snap.Meta.Specs, "pin_memory"); spec == nil || spec.NoEffect != "" {
		t.Errorf("pin_memory: %+v", spec)
	}
	if g := snap.Segments[1]; g.Reason != "device cpu -> NVIDIA H100"+trace.ByScript || !g.ByScript || g.FirstStep != 2 || snap.Baseline.Segment != 1 {
		t.Errorf("%+v, baseline %d", g, snap.Baseline.Segment)
	}
}

// TestThreads: threads that take batches one after the other, each with a ring, make one run.
func TestThreads(t *testing.T) {
	const ms, threads = 1_000_000, 6
	b, _, end := sole(t)
	for i := range threads {
		w := newWriter(t, b.shared, fmt.Sprintf("ring-%d-%d", nobody, i), roleLoop, nobody, -1)
		for step := int32(2 * i); step < int32(2*i+2); step++ {
			rec := record{Batch: step, Step: step, Round: uint32(i), Iteration: uint32(i), Flags: flagTrain, Core: -1, Waiting: -1}
			rec.Kind, rec.Start, rec.End = kindNext, int64(step)*10*ms, int64(step)*10*ms+4*ms
			body := rec
			body.Kind, body.Start, body.End, body.Flags = kindBody, rec.End, rec.End+6*ms, flagTrain|flagFinal
			w.write(rec, body)
		}
	}
	b.poll()
	if s := end(); len(s.Recent) != 2*threads {
		t.Errorf("%d steps of %d", len(s.Recent), 2*threads)
	}
}

// TestHeld: a step whose batch the script still holds when it ends counts, and is in no share.
func TestHeld(t *testing.T) {
	const ms = 1_000_000
	_, p, end := sole(t)
	for n := range int32(3) {
		at := int64(n) * 10 * ms
		rec := record{Iteration: 1, Step: n, Batch: n, Flags: flagTrain, Sample: -1, Waiting: -1}
		next, body := rec, rec
		next.Kind, next.Start, next.End, next.Arg, next.Core = kindNext, at, at+6*ms, 4, int64(n+1)*4
		p.loop(&next)
		if body.Kind, body.Start, body.End, body.Core = kindBody, at+6*ms, at+10*ms, -1; n < 2 {
			body.Flags |= flagFinal
			p.loop(&body)
		}
	}
	p.loop(&record{Kind: kindLast, Step: 2, Start: 26 * ms, End: 26 * ms, Core: 12, Waiting: -1})
	if total := &end().Total; total.Steps != 3 || total.Samples != 12 || total.Lost != 0 {
		t.Errorf("%d steps with %d samples, %d lost", total.Steps, total.Samples, total.Lost)
	}
}

// TestStarting: a worker's wait for its first task is start-up, and its later waits are for the limit.
func TestStarting(t *testing.T) {
	const ms = 1_000_000
	_, p, end := sole(t)
	r := &ring{role: roleWorker, parent: 42, pid: 43}
	for n := range int32(2) {
		at := int64(n) * 110 * ms
		rec := record{Iteration: 1, Step: n, Batch: n, Flags: flagTrain, Sample: -1, Core: -1, Waiting: -1}
		wait, load, next, body := rec, rec, rec, rec
		wait.Kind, wait.Start, wait.End, wait.Flags = kindWait, at, at+90*ms, 0
		if n == 0 {
			wait.Flags = flagFirst
		}
		load.Kind, load.Start, load.End, load.Offset = kindBatch, at+90*ms, at+100*ms, 9*ms
		p.work(r, &wait)
		p.work(r, &load)
		next.Kind, next.Start, next.End, next.Arg = kindNext, at, at+100*ms, 4
		p.loop(&next)
		body.Kind, body.Start, body.End, body.Flags = kindBody, at+100*ms, at+110*ms, flagTrain|flagFinal
		p.loop(&body)
	}
	stall := &end().Total.Stall
	if stall[trace.CauseStartup] != 90*ms || stall[trace.CausePrefetch] != 90*ms {
		t.Errorf("startup %d, prefetch %d", stall[trace.CauseStartup], stall[trace.CausePrefetch])
	}
}

// TestGaps: steps whose records were overwritten count, with their samples and time. They are in no
// share.
func TestGaps(t *testing.T) {
	const ms = 1_000_000
	_, p, end := sole(t)
	samples := func(step int32) int64 { return 4*int64(step) + min(int64(step), 10) } // the first ten steps have 5
	step := func(n int32) {
		at := int64(n) * 10 * ms
		rec := record{Iteration: uint32(1 + n/50), Step: n, Batch: n % 50, Flags: flagTrain, Core: -1, Waiting: -1, Sample: -1}
		if n%50 == 0 {
			rec.Flags |= flagFirst
		}
		fetch, next, body := rec, rec, rec
		fetch.Kind, fetch.Start, fetch.End = kindFetch, at, at+6*ms
		p.work(&ring{role: roleInline, parent: nobody}, &fetch)
		next.Kind, next.Start, next.End, next.Arg, next.Core = kindNext, at, at+6*ms, uint32(samples(n+1)-samples(n)), samples(n+1)
		p.loop(&next)
		body.Kind, body.Start, body.End, body.Flags = kindBody, at+6*ms, at+10*ms, body.Flags|flagFinal
		p.loop(&body)
	}
	for n := range int32(80) { // steps 5 to 19 and 40 to 59 have no record
		if n < 5 || n >= 20 && n < 40 || n >= 60 {
			step(n)
		}
	}
	p.loop(&record{Kind: kindLast, Step: 99, Start: 990 * ms, End: 990 * ms, Core: samples(100), Waiting: -1})
	snap := end()
	total := &snap.Total
	if total.Steps != 100 || total.Samples != samples(100) || total.Lost != 15+20+19 || total.Wall != 990*ms {
		t.Errorf("%d steps with %d samples, %d of them without a record, in %d ms", total.Steps, total.Samples, total.Lost, total.Wall/ms)
	}
	tally := snap.Tally(0)
	if s := &tally.Steady; s.Steps != 4+19+19 || s.Wall != s.Steps*10*ms || s.Stall[trace.CauseFetch] != s.Steps*6*ms || s.Busy != s.Steps*4*ms {
		t.Errorf("%d steady steps: %+v", s.Steps, s)
	}
	if len(snap.Epochs) != 2 || snap.Epochs[0].Totals.Steps+snap.Epochs[1].Totals.Steps != 100 {
		t.Errorf("%d epochs", len(snap.Epochs))
	}
	if took := p.totals.took(); took != 44*10*ms { // of those with a record, but the first
		t.Errorf("the totals are of %d ms", took/ms)
	}
}
