//go:build linux

package bridge

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unpack writes the files of a recorded training into a bridge's folder.
func unpack(t *testing.T, name, dir string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// replay makes a session of a recorded training.
func replay(t *testing.T, name string) (*Start, *trace.Snapshot) {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	unpack(t, name, b.shared)
	b.Clock.origin = 0 // as on the machine where it was recorded
	b.Watch()
	var first Start
	select {
	case first = <-b.First():
	case <-time.After(time.Minute):
		t.Fatal("no loop was seen")
	}
	r := trace.NewRecorder(b.Clock, 0)
	s := trace.NewSession(trace.Meta{Specs: Specs(&first.Hello, &first.Loader, &first.Batch)})
	c := trace.NewCollector(r, s, attribution.NewAnalyzer(first.Since), nil)
	b.Record(r)
	c.Start()
	b.Stop()
	if err := c.Stop(trace.Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	return &first, s.Snapshot(0, 1<<62)
}

// named checks that each span of computing says which batch it has.
func named(t *testing.T, s *trace.Snapshot) {
	t.Helper()
	batches := map[int32]int32{}
	for i := range s.Recent {
		batches[s.Recent[i].Index] = s.Recent[i].Batch
	}
	for i := range s.Spans {
		if c := &s.Spans[i]; c.Kind == trace.KindCompute && (c.Batch < 0 || c.Batch != batches[c.Step]) {
			t.Errorf("step %d computes batch %d, not %d", c.Step, c.Batch, batches[c.Step])
		}
	}
}

// TestRecorded: a real training of three epochs of twelve steps, each with a validation
// after it, whose num_workers went 1, 3, 0, 2 (testdata/record.py).
func TestRecorded(t *testing.T) {
	first, s := replay(t, "testdata/recorded.tar.gz")
	named(t, s)
	if first.Hello.Torch == "" || first.Loader.Dataset != "Samples" || first.Loader.BatchSize != 8 || !first.Loader.Live || first.Loader.Samples != 96 {
		t.Errorf("%+v", first)
	}
	steps := s.Recent
	if len(steps) != 36 || s.Total.Samples != 3*96 || len(s.Epochs) != 3 {
		t.Fatalf("%d steps, %d samples, %d epochs; want 36, 288, 3", len(steps), s.Total.Samples, len(s.Epochs))
	}
	var firsts, lasts, built, split, changing int
	for i := range steps {
		st := &steps[i]
		sum := st.Busy
		for _, ns := range st.Stall {
			sum += ns
		}
		if sum != st.End-st.Start || st.Busy < 2e6 || i > 0 && st.Start != steps[i-1].End {
			t.Errorf("step %d: busy %d and stalls make %d, not %d", i, st.Busy, sum, st.End-st.Start)
		}
		if st.Load < 24e6 { // eight samples of 3 ms
			t.Errorf("step %d: its batch took %d ns of worker time", i, st.Load)
		}
		if first := &steps[i-i%12]; st.Batch != first.Batch+int32(i%12) {
			t.Errorf("step %d: batch %d, where %d was the epoch's first", i, st.Batch, first.Batch)
		}
		for flag, n := range map[uint16]*int{trace.FlagFirstOfEpoch: &firsts, trace.FlagLastOfEpoch: &lasts, trace.FlagTransition: &changing} {
			if st.Flags&flag != 0 {
				*n++
			}
		}
		if st.Built.Worker != trace.TrackStep && st.Built.Slowest.Sample >= 0 {
			built++
		}
		if st.Work.Batch != (trace.Split{}) {
			split++
			if st.Work.Batch.Blocked < 20e6 {
				t.Errorf("step %d: its batch had %+v, where samples slept for 24 ms", i, st.Work.Batch)
			}
		}
	}
	// The kernel's counts are read for the first batch of each of the eight workers and of the loop itself,
	// and seldom after that.
	if firsts != 3 || lasts != 3 || built != 36 || split < 9 || split > 18 || changing < 3 || changing > 20 {
		t.Errorf("%d first and %d last steps, %d with who built them, %d with what that took, %d in transitions", firsts, lasts, built, split, changing)
	}
	var reasons []string
	for _, g := range s.Segments {
		reasons = append(reasons, g.Reason)
	}
	if want := []string{"start", "num_workers 1 -> 3", "num_workers 3 -> 0", "num_workers 0 -> 2"}; !slices.Equal(reasons, want) {
		t.Errorf("segments %q, want %q", reasons, want)
	}
	if b := (attribution.Breakdown{Totals: s.Total}); b.Stall[trace.CauseFetch] < b.Data()/2 || b.DataShare() < 0.5 {
		t.Errorf("fetch %d of %d ns that were lost to data", b.Stall[trace.CauseFetch], b.Data())
	}
	lanes, kinds := map[string]bool{}, map[trace.Kind]int{}
	for i := range s.Spans {
		lanes[s.Spans[i].Track.String()] = true
		kinds[s.Spans[i].Kind]++
	}
	if kinds[trace.KindBackward] != 36 || kinds[trace.KindOptimizer] != 36 {
		t.Errorf("%d backward passes and %d steps of an optimizer, want 36 of each", kinds[trace.KindBackward], kinds[trace.KindOptimizer])
	}
	ranks := s.Ranks(0, s.Now)
	if len(ranks) != 1 || ranks[0].Steps != 35 || len(ranks[0].Parts(trace.Outside)) < 4 {
		t.Fatalf("%+v", ranks)
	}
	if k := ranks[0]; k.Body < 35*2e6 || k.Backward+k.Optimizer > k.Body-35*2e6 || k.Wait+k.Body > k.Time { // the script sleeps for 2 ms of each step
		t.Errorf("%+v", k)
	}
	for _, lane := range []string{"w0", "w1", "w2", "inline", "script", "host", "compute", "STALL", "ready q"} {
		if !lanes[lane] {
			t.Errorf("nothing in lane %s", lane)
		}
	}
}

// TestLate: the loop's wait for a core counts as the host's only while its batch is
// ready.
func TestLate(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name          string
		lane          trace.TrackID
		done, waiting int64
		late          int64
	}{
		{"woken late", trace.Worker(0), 30 * ms, 5 * ms, 5 * ms},
		{"no core before it was ready either", trace.Worker(0), 38 * ms, 25 * ms, 2 * ms},
		{"ready before it was asked for", trace.Worker(0), 1 * ms, 25 * ms, 25 * ms},
		{"as a wake-up takes", trace.Worker(0), 30 * ms, ms / 20, 0},
		{"not measured", trace.Worker(0), 30 * ms, -1, 0},
		{"nothing on record of its worker", trace.Worker(0), 0, 5 * ms, 0},
		{"loaded inline", trace.TrackInline, 30 * ms, 5 * ms, 0},
	} {
		r := record{Start: 10 * ms, End: 40 * ms, Waiting: c.waiting}
		if got := r.late(&batch{lane: c.lane, done: c.done}, r.Start); got != c.late {
			t.Errorf("%s: %d ns instead of %d", c.name, got, c.late)
		}
	}
}

// TestPace: rings are read seldom if nothing happens. If they fill fast, they are read so
// often that none is more than an eighth full.
func TestPace(t *testing.T) {
	b := &Bridge{Every: PollAlone}
	for _, c := range []struct {
		session bool
		every   time.Duration
		fullest float64
		want    time.Duration
	}{
		{false, PollShown, 0, PollShown},
		{true, PollShown, 0, 2 * PollShown},
		{true, PollAlone, 0, PollAlone},
		{true, PollAlone, 0.1, PollAlone},
		{true, PollAlone, 0.5, PollAlone / 4},
		{true, PollAlone, 40, pollBusy},
		{true, PollAlone / 4, 0.1, PollAlone / 4},
	} {
		b.recorder, b.fullest = nil, c.fullest
		if c.session {
			b.recorder = new(trace.Recorder)
		}
		if got := b.next(c.every); got != c.want {
			t.Errorf("after %v, %.0f %% full: read again after %v, want %v", c.every, 100*c.fullest, got, c.want)
		}
	}
}

func TestControl(t *testing.T) {
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := b.Control
	if err := c.Set([]knob.Setting{{Name: "num_workers", Value: "2"}}); err == nil {
		t.Error("a knob was set before there was a loader")
	}
	h, l := &Hello{Torch: "2.0.1"}, &Loader{Knobs: map[string]int{"num_workers": 1, "prefetch_factor": 2, "in_order": 1}, Live: true, Style: "map", BatchSize: 16}
	c.begin(knobsOf(l), Specs(h, l, &Batch{}))
	asked := func() (v []int64) {
		for i := range Live {
			v = append(v, int64(*c.word(wordKnobs + i)))
		}
		return v
	}
	for _, step := range []struct {
		name, value, err string
		page             []int64
	}{
		{"num_workers", "3", "", []int64{3, -1, -1, -1, -1}},
		{"prefetch_factor", "0", "out of range", []int64{3, -1, -1, -1, -1}},
		{"pin_memory", "on", "there is no GPU", []int64{3, -1, -1, -1, -1}},
		{"in_order", "off", "PyTorch 2.0.1 has no such setting", []int64{3, -1, -1, -1, -1}},
		{"batch_size", "32", "the script decides", []int64{3, -1, -1, -1, -1}},
		{"persistent_workers", "on", "", []int64{3, -1, -1, -1, 1}},
		{"num_workers", "1", "", []int64{1, -1, -1, -1, 1}},
	} {
		err := c.Set([]knob.Setting{{Name: step.name, Value: step.value}})
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s=%s: %v, want %q", step.name, step.value, err, step.err)
		}
		if got := asked(); !slices.Equal(got, step.page) {
			t.Errorf("%s=%s: the page has %v, want %v", step.name, step.value, got, step.page)
		}
	}
	l.Anew = true
	c.another(Specs(h, l, &Batch{}))                                                     // from now on nothing persists
	for _, step := range [][2]string{{"off", ""}, {"on", "makes its DataLoader anew"}} { // on was asked for before that
		if err := c.Set([]knob.Setting{{Name: "persistent_workers", Value: step[0]}}); (err == nil) != (step[1] == "") || err != nil && !strings.Contains(err.Error(), step[1]) {
			t.Errorf("persistent_workers=%s where it has no effect, and the script has off: %v", step[0], err)
		}
		c.another(Specs(h, l, &Batch{}))
	}
	set := func(workers string) error { return c.Set([]knob.Setting{{Name: "num_workers", Value: workers}}) }
	if err := set("4"); err != nil {
		t.Error(err)
	}
	why := &Refused{Reason: "no memory for more", Hint: "add some"}
	c.refuse(why, 2)
	if got := asked(); got[0] != 2 || c.Requested()[0].Value != "2" {
		t.Errorf("of 4 workers 2 could begin: the page has %v, and %v is asked for", got, c.Requested()[0])
	}
	if err := set("3"); err == nil || !strings.Contains(err.Error(), "no memory for more; add some") {
		t.Errorf("a third worker was asked for again: %v", err)
	}
	if err := set("1"); err != nil {
		t.Error(err)
	}
	if s := knob.SpecOf(c.refuse(why, 0), "num_workers"); s.NoEffect != why.Reason || s.Hint != why.Hint || KnobTable.Find("num_workers").NoEffect != "" {
		t.Errorf("no worker can begin: %+v", s)
	}
	if err := set("1"); err == nil || !strings.Contains(err.Error(), why.Reason) {
		t.Errorf("a worker was asked for again: %v", err)
	}
	c.another(Specs(h, l, &Batch{}))
	if err := set("1"); err != nil {
		t.Errorf("of another loader a worker was asked for: %v", err)
	}
	if *c.word(wordSequence)%2 != 0 {
		t.Error("the page looks as if it were being written")
	}
	c.Pause(true)
	if !c.Paused() || *c.word(wordPaused) != 1 {
		t.Error("it is not paused")
	}
}

// TestBeside: if several processes train and are no ranks, the session is about the first one,
// and says so once.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		world int
		steps int64
		want  string
	}{
		{-1, 2, "process 2 (b.py --lr 1) trains too and is in no figure here: the session is of process 1 (a.py)"},
		{-1, 0, ""},
		{2, 2, ""},
	} {
		b := &Bridge{processes: map[int]*process{}}
		for i, argv := range []string{"a.py", "b.py --lr 1"} {
			p := b.process(i + 1)
			p.known, p.hello = true, Hello{PID: i + 1, Rank: i, World: c.world, Argv: strings.Fields(argv)}
			p.totals.steps = c.steps
		}
		b.main = b.processes[1]
		b.recorder = trace.NewRecorder(newClock(), 0)
		s := trace.NewSession(trace.Meta{})
		l := trace.NewCollector(b.recorder, s, attribution.NewAnalyzer(0), nil)
		l.Start()
		b.count()
		b.count()
		if err := l.Stop(trace.Outcome{}); err != nil {
			t.Fatal(err)
		}
		notes := s.Snapshot(0, 1<<62).Notes
		if len(notes) != min(1, len(c.want)) || c.want != "" && !strings.HasPrefix(notes[0].Text, c.want) {
			t.Errorf("%d ranks, %d steps: %v, not %q", c.world, c.steps, notes, c.want)
		}
	}
}

// withLoader is a bridge whose session is about a process with a loader that has one worker.
func withLoader(t *testing.T) (*Bridge, *process) {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	b.recorder = trace.NewRecorder(b.Clock, 0)
	b.main = b.process(1)
	b.main.out.recorder = b.recorder
	b.main.loader = Loader{Live: true, Knobs: map[string]int{"num_workers": 1}}
	return b, b.main
}

// TestAnew: nothing persists in a loader that the script makes anew, even if the loop goes on to
// another loader.
func TestAnew(t *testing.T) {
	b, p := withLoader(t)
	for _, m := range []message{{Type: "anew"}, {Type: "moved", Loader: p.loader}} {
		p.segments.apply(&m)
		if s := knob.SpecOf(b.Control.specs, "persistent_workers"); s == nil || s.NoEffect == "" || s.Hint == "" {
			t.Errorf("%s: %+v", m.Type, s)
		}
	}
}

// TestMovedAsAsked: a loader that the script moves on to, and that has what was asked for meanwhile, is no change of the script's.
func TestMovedAsAsked(t *testing.T) {
	b, p := withLoader(t)
	p.segments.begin(0)
	for _, c := range []struct {
		workers, asked int
		reason         string
	}{{3, 3, "num_workers 1 -> 3"}, {2, 3, "num_workers 3 -> 2" + trace.ByScript}} {
		l := Loader{Live: true, Knobs: map[string]int{"num_workers": c.asked}}
		b.Control.asked = knobsOf(&l)
		l.Knobs = map[string]int{"num_workers": c.workers}
		p.segments.apply(&message{Type: "moved", Script: true, Loader: l})
		if p.segments.segment.Reason != c.reason {
			t.Errorf("%q, want %q", p.segments.segment.Reason, c.reason)
		}
	}
}

// TestShuffleNotKnown: shuffle is not shown if the sampler does not tell it.
func TestShuffleNotKnown(t *testing.T) {
	b, p := withLoader(t)
	p.segments.begin(0)
	on := true
	for _, c := range []struct {
		shuffle *bool
		reason  string
	}{{nil, "start"}, {&on, "shuffle - -> on" + trace.ByScript}, {nil, "shuffle on -> -" + trace.ByScript}} {
		p.segments.apply(&message{Type: "moved", Script: true, Loader: Loader{Live: true, Knobs: p.loader.Knobs, Shuffle: c.shuffle}})
		listed := knob.ValueOf(p.segments.segment.Knobs, "shuffle")
		if known := knob.SpecOf(b.Control.specs, "shuffle") != nil; known != (c.shuffle != nil) || p.segments.segment.Reason != c.reason || (listed == "on") != known || len(b.Control.Requested()) != len(p.segments.segment.Knobs) {
			t.Errorf("shuffle is %v: a knob %v, %q, segment %q", c.shuffle, known, listed, p.segments.segment.Reason)
		}
	}
}

// TestUnbatched: there is no advice for larger batches if the loader makes no batches.
func TestUnbatched(t *testing.T) {
	for unbatched, most := range map[bool]int{false: 1 << 20, true: 1} {
		s := knob.SpecOf(Specs(&Hello{}, &Loader{Unbatched: unbatched, Knobs: map[string]int{"num_workers": 1}}, &Batch{}), "batch_size")
		if s.Max != most || strings.Contains(s.NoEffect, "None") != unbatched || s.NoEffect == "" {
			t.Errorf("unbatched %v: %+v", unbatched, s)
		}
	}
}

// TestApart: if a loader's class makes its own iterators, persistent_workers cannot be changed, and the
// specs say when changes apply.
func TestApart(t *testing.T) {
	h := &Hello{Torch: "2.15.0"}
	for _, live := range []bool{false, true} {
		l := &Loader{Apart: true, Live: live, Style: "map", HasInOrder: true, Knobs: map[string]int{"num_workers": 1}}
		specs := Specs(h, l, &Batch{})
		if s := knob.SpecOf(specs, "persistent_workers"); s.NoEffect == "" || (s.Hint == "") == live {
			t.Errorf("%+v, live %v", s, live)
		}
		if s := knob.SpecOf(specs, "num_workers"); s.NoEffect != "" || (s.Applied == "next epoch") == live {
			t.Errorf("%+v, live %v", s, live)
		}
		if when := l.When(); (when == "") != live || strings.Contains(when, "pipe") {
			t.Errorf("%q, live %v", when, live)
		}
	}
}

func TestEnviron(t *testing.T) {
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	env := b.Environ([]string{"A=1", "PYTHONPATH=/mine", Variable + "=/old"})
	want := []string{"A=1", "PYTHONPATH=" + b.Path() + ":/mine", Variable + "=" + b.shared}
	if !slices.Equal(env, want) {
		t.Errorf("%q, want %q", env, want)
	}
	for _, name := range []string{"sitecustomize.py", "gpustall/live.py", "gpustall/__init__.py"} {
		if _, err := os.Stat(filepath.Join(b.Path(), name)); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{b.dir, b.shared} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

func TestShared(t *testing.T) {
	k := Knobs{Workers: 4, Prefetch: 2}
	for _, c := range []struct {
		free, batch int64
		warns       bool
	}{{64 << 20, 16 << 20, true}, {64 << 20, 1 << 20, false}, {-1, 1 << 40, false}, {0, 0, false}} {
		if got := shared(&k, c.free, c.batch); (got != "") != c.warns {
			t.Errorf("%+v: %q", c, got)
		}
	}
	for _, c := range []struct {
		size  Batch
		warns bool
	}{
		{Batch{Tensors: 200, Files: 1024, Sharing: "file_descriptor"}, true},
		{Batch{Tensors: 2, Files: 1024, Sharing: "file_descriptor"}, false},
		{Batch{Tensors: 200, Files: 1024, Sharing: "file_system"}, false},
		{Batch{Tensors: 200, Files: -1, Sharing: "file_descriptor"}, false},
	} {
		if got := descriptors(&k, &c.size); (got != "") != c.warns {
			t.Errorf("%+v: %q", c.size, got)
		}
	}
}

// TestWhen: what is said about when changes apply holds for each knob.
func TestWhen(t *testing.T) {
	for _, c := range []struct {
		of            Loader
		applied, when string
		barred        bool
	}{
		{Loader{Live: true, Style: "map"}, "next batch", "", false},
		{Loader{Style: "iterable"}, "next epoch", "changes apply at the next epoch: the data set is iterable", false},
		{Loader{Style: "map"}, "next epoch", "changes apply at the next epoch: the data set is a data pipe", false},
		{Loader{Style: "iterable", Why: "it is not known"}, "next batch", "the DataLoader cannot be changed while it runs: it is not known", true},
		{Loader{Style: "map", Why: "it is not known"}, "next batch", "the DataLoader cannot be changed while it runs: it is not known", true},
	} {
		c.of.Knobs = map[string]int{"num_workers": 1}
		spec := knob.SpecOf(Specs(&Hello{}, &c.of, &Batch{}), "num_workers")
		if spec.Applied != c.applied || (spec.NoEffect != "") != c.barred || c.of.When() != c.when {
			t.Errorf("%+v: %q %q, %q", c.of, spec.Applied, spec.NoEffect, c.of.When())
		}
	}
}

// TestForesee: changes that would end the training are known in advance.
func TestForesee(t *testing.T) {
	for _, c := range []struct {
		script, workers int
		context         string
		onGPU           int64
		warns           bool
	}{{0, 2, "fork", 1, true}, {0, 0, "fork", 1, false}, {0, 2, "spawn", 1, false}, {0, 2, "fork", 0, false}, {2, 4, "fork", 1, false}} {
		l := &Loader{Knobs: map[string]int{"num_workers": c.script}, Live: true, Style: "map", Context: c.context}
		if got := afterCUDA(l, &Batch{OnGPU: c.onGPU}, c.workers); (got != "") != c.warns {
			t.Errorf("%+v: %q", c, got)
		}
		if c.workers > 0 {
			if spec := knob.SpecOf(Specs(&Hello{}, l, &Batch{OnGPU: c.onGPU}), "num_workers"); (spec.NoEffect != "") != c.warns {
				t.Errorf("%+v: num_workers %q", c, spec.NoEffect)
			}
		}
	}
	for _, c := range []struct {
		more int
		each weight
		free int64
		want string
	}{
		{4, weight{1 << 30, true, "fork"}, 3 << 30, "a worker has 1.00 GiB of memory of its own, so 4 more need 4.00 GiB, and 3.00 GiB is left: the kernel would end one of the processes; keep what the data set holds in arrays"},
		{2, weight{1 << 30, true, "fork"}, 3 << 30, ""},
		{-1, weight{1 << 30, true, "fork"}, 0, ""},
		{4, weight{0, false, "fork"}, 0, ""},
		{4, weight{1 << 30, true, "forkserver"}, 3 << 30, "keep what the data set holds in tensors"},
		{4, weight{1 << 30, false, "spawn"}, 3 << 30, "a worker that begins by spawn may have up to 1.00 GiB of memory of its own, so 4 more need up to 4.00 GiB, and 3.00 GiB is left: the kernel may end"},
	} {
		if got := copies(c.more, c.each, c.free); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestDevice: a training on a stand-in for a GPU (testdata/record.py), which is busy
// for 5 ms of each step and empty while its batch is loaded for 20 ms.
func TestDevice(t *testing.T) {
	first, s := replay(t, "testdata/device.tar.gz")
	if !first.Hello.Stand || first.Hello.CUDA != "stand-in" {
		t.Errorf("%+v", first.Hello)
	}
	named(t, s)
	if n := len(s.Recent); n != 40 { // the last ones too, which were known when the script had ended
		t.Fatalf("%d steps, want 40", n)
	}
	b := attribution.Breakdown{Totals: s.Total}
	if each := float64(b.Busy) / float64(b.Steps) / 1e6; each < 4.9 || each > 5.3 {
		t.Errorf("the device is busy for %.2f ms of a step, want 5", each)
	}
	if b.DataShare() < 0.6 {
		t.Errorf("the device waits for data %.2f of the time: %v", b.DataShare(), b.Stall)
	}
	enqueued := false
	for i := range s.Spans {
		enqueued = enqueued || s.Spans[i].Kind == trace.KindEnqueue
	}
	if !enqueued {
		t.Error("the host's own time with a batch is not on record")
	}
}
