package experiment

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// tunable are the knobs of a run that can be tuned.
var tunable = []knob.Spec{
	{Name: "num_workers", Type: "int", Max: 64, Group: knob.GroupLoader}, {Name: "prefetch_factor", Type: "int", Max: 16, Group: knob.GroupLoader},
	{Name: "pin_memory", Type: "bool", Group: knob.GroupLoader, NoEffect: "this device copies nothing"},
	{Name: "persistent_workers", Type: "bool", Group: knob.GroupLoader}, {Name: "in_order", Type: "bool", Group: knob.GroupLoader},
	{Name: "ceiling", Type: "bool", Group: knob.GroupLoader},
}

// sleepers is a world in which loading a batch waits for load ms and needs no core.
// More than most workers slow each other down. The device computes for compute ms.
func sleepers(load, most, compute float64) func([]knob.Setting) (wall, busy, total float64) {
	return func(knobs []knob.Setting) (float64, float64, float64) {
		n := float64(number(knob.ValueOf(knobs, "num_workers")))
		if n == 0 {
			return load + compute, compute, load
		}
		each := load * max(1, n/most) // they are in each other's way
		return max(compute, each/n), compute, each
	}
}

// newWorld returns a run in a world that has run for a while with so many workers.
func newWorld(t *testing.T, workers int, world func([]knob.Setting) (wall, busy, load float64)) *run {
	prefetch := "2"
	if workers == 0 {
		prefetch = "0"
	}
	r := &run{
		t: t, session: trace.NewSession(trace.Meta{Seed: 1, Samples: 1 << 20, Specs: tunable, Host: []knob.Setting{{Name: "threads", Value: "4"}}}),
		random: rand.New(rand.NewPCG(1, 2)), noise: 0.03, index: -1, world: world,
		inForce: []knob.Setting{
			{Name: "num_workers", Value: strconv.Itoa(workers)}, {Name: "prefetch_factor", Value: prefetch}, {Name: "pin_memory", Value: "off"},
			{Name: "persistent_workers", Value: "off"}, {Name: "in_order", Value: "on"}, {Name: "batch_size", Value: "32"}, {Name: "ceiling", Value: "off"},
		},
	}
	r.wanted = r.inForce
	r.open("start")
	r.train(30)
	return r
}

// tuned tunes a run to the end.
func (r *run) tuned(q Question) *attribution.Experiment {
	r.t.Helper()
	q.Kind = trace.Tune
	if q.Tuning == nil {
		q.Tuning = new(Tuning)
	}
	q.Tuning.Window = r.session.Snapshot
	r.until(r.begin(q))
	return r.only()
}

// only returns the run's only experiment.
func (r *run) only() *attribution.Experiment {
	r.t.Helper()
	s := r.session.Snapshot(0, 0)
	xs := attribution.Experiments(s, attribution.Segments(s))
	if len(xs) != 1 || xs[0].Running() {
		r.t.Fatalf("%+v", xs)
	}
	return &xs[0]
}

func (r *run) workers() int { return number(knob.ValueOf(r.inForce, "num_workers")) }

// rate returns the world's rate for the settings in force.
func (r *run) rate() float64 {
	wall, _, _ := r.world(r.inForce)
	return 32e3 / wall
}

// story returns all decisions of a tune as text.
func story(x *attribution.Experiment) string {
	var b strings.Builder
	for i := range x.Decisions {
		b.WriteString(x.Decisions[i].Text + "\n")
	}
	return b.String() + x.Text()
}

func TestTune(t *testing.T) {
	needs := func(changes []knob.Setting) (int64, string) {
		n := number(knob.ValueOf(changes, "num_workers"))
		return int64(n) << 30, ""
	}
	for _, c := range []struct {
		name    string
		workers int
		world   func([]knob.Setting) (wall, busy, load float64)
		q       Question
		least   int // workers that it ends with
		most    int
		kept    bool
		says    []string
		never   []string
		tries   int // at the most
	}{
		{name: "more workers", workers: 1, world: sleepers(80, 99, 20), least: 4, most: 6, kept: true, tries: 3,
			says: []string{"at the start: ", "predicted +", "measured +", ": kept\n", ": confirmed\n", "; it stays; ", "pin_memory has no effect: this device copies nothing: not tried"}},
		{name: "inline", workers: 0, world: sleepers(60, 99, 20), least: 3, most: 6, kept: true, tries: 3, says: []string{"num_workers=", "confirmed", "num_workers 0 -> ", ", prefetch_factor 0 -> 2: "}},
		{name: "nothing to gain", workers: 2, world: sleepers(20, 99, 20), least: 2, most: 2, tries: 0,
			says: []string{"no other setting of the loader can gain more than"}, never: []string{"confirmed"}},
		{name: "many more than needed", workers: 16, world: sleepers(20, 99, 20), least: 2, most: 4, kept: true, tries: 1,
			says: []string{"predicted as fast with fewer workers", "takes less of the host", "the same (", "confirmed"}},
		{name: "the model is wrong", workers: 2, world: sleepers(80, 2, 20), least: 1, most: 2, tries: 2, says: []string{": dropped\n", "nothing faster was found"}, never: []string{"it stays"}},
		{name: "a memory budget", workers: 1, world: sleepers(320, 99, 20), q: Question{Tuning: &Tuning{Memory: 4 << 30, Needs: needs}}, least: 4, most: 4, kept: true, tries: 3,
			says: []string{"not tried: it needs ", "of the host's memory, over the budget of 4.00 GiB"}},
		{name: "a limit of workers", workers: 1, world: sleepers(320, 99, 20), q: Question{Tuning: &Tuning{Workers: 3}}, least: 3, most: 3, kept: true, tries: 2, never: []string{"num_workers=4"}},
		{name: "only other knobs", workers: 1, world: sleepers(80, 99, 20), q: Question{Tuning: &Tuning{Knobs: []string{"prefetch_factor"}}}, least: 1, most: 1, tries: 2, never: []string{"num_workers="}},
		{name: "a budget that is too short", workers: 1, world: sleepers(80, 99, 20), q: Question{Budget: 3 * time.Second}, least: 1, most: 1, tries: 0, never: []string{"measured +"}},
		{name: "a budget that leaves no time to try", workers: 1, world: sleepers(280, 99, 20), q: Question{Budget: 20 * time.Second}, least: 1, most: 1, tries: 0,
			says: []string{"its budget of 20s is too short to try anything: ~30s would do"}, never: []string{"nothing faster was found"}},
		{name: "a budget of a trial and its proof", workers: 1, world: sleepers(280, 99, 20), q: Question{Budget: 40 * time.Second}, least: 2, most: 16, kept: true, tries: 1,
			says: []string{"measured ~x", "confirmed"}},
		{name: "a dry run", workers: 1, world: sleepers(80, 99, 20), q: Question{Tuning: &Tuning{Dry: true}}, least: 1, most: 1, tries: 0,
			says: []string{"at the start: ", "num_workers=6: predicted +", "would be tried first", "a dry run: nothing was changed"}, never: []string{"measured +", ": kept"}},
		{name: "a dry run inline", workers: 0, world: sleepers(20, 99, 2000), q: Question{Tuning: &Tuning{Dry: true}}, least: 0, most: 0, tries: 0,
			never: []string{"prefetch_factor=0"}},
		{name: "a budget of steps", workers: 1, world: sleepers(80, 99, 20), q: Question{Steps: 60}, least: 1, most: 1, tries: 0},
	} {
		r := newWorld(t, c.workers, c.world)
		found := r.rate()
		x := r.tuned(c.q)
		if n := r.workers(); n < c.least || n > c.most || x.Kept != c.kept || x.Tried() > c.tries || r.rate() < found {
			t.Errorf("%s: left with %d workers, kept %v, %d tries:\n%s", c.name, n, x.Kept, x.Tried(), story(x))
		}
		for _, text := range c.says {
			if !strings.Contains(story(x), text) {
				t.Errorf("%s: %q is not said:\n%s", c.name, text, story(x))
			}
		}
		for _, text := range c.never {
			if strings.Contains(story(x), text) {
				t.Errorf("%s: %q is said:\n%s", c.name, text, story(x))
			}
		}
		if testing.Verbose() {
			fmt.Printf("%s (%d steps, %v)\n%s\n\n", c.name, r.step, time.Duration(x.Spent), story(x))
		}
	}
}

// TestTuneDisturbed: however a tune is disturbed, the settings that it tries do not stay, and
// those that others set do.
func TestTuneDisturbed(t *testing.T) {
	for _, c := range []struct {
		name    string
		disturb func(*run, *Experiment)
		workers int
		why     string
	}{
		{"stopped", func(r *run, e *Experiment) { e.Stop(r.session.Snapshot(0, 0)) }, 1, "it was stopped"},
		{"another knob", func(r *run, _ *Experiment) { _ = r.Set([]knob.Setting{{Name: "in_order", Value: "off"}}) }, 1, "in_order off was set by hand"},
		{"the same knob", func(r *run, _ *Experiment) { _ = r.Set([]knob.Setting{{Name: "num_workers", Value: "5"}}) }, 5, "num_workers 5 was set by hand"},
	} {
		for _, steps := range []int{1, 60, 150, 240} {
			r := newWorld(t, 1, sleepers(80, 99, 20))
			e := r.begin(Question{Kind: trace.Tune, Tuning: &Tuning{Window: r.session.Snapshot}})
			for i := 0; i < steps && !e.Look(r.session.Snapshot(0, 0)); i += 5 {
				r.train(5)
			}
			c.disturb(r, e)
			r.until(e)
			if x := r.only(); r.workers() != c.workers || x.Kept || x.Why != c.why || len(x.Trying) > 0 {
				t.Errorf("%s after %d steps: left with %d workers: %s", c.name, steps, r.workers(), x.Text())
			}
		}
	}
}

// TestTuneRefused: a setting that the engine cannot apply, or refuses, is left out.
func TestTuneRefused(t *testing.T) {
	r := newWorld(t, 1, sleepers(80, 99, 20))
	r.impossible = func(knobs []knob.Setting) bool { return number(knob.ValueOf(knobs, "num_workers")) >= 4 }
	x := r.tuned(Question{})
	if r.workers() != 3 || !x.Kept || !strings.Contains(story(x), "could not be put in force: ") {
		t.Errorf("left with %d workers:\n%s", r.workers(), story(x))
	}
	r = newWorld(t, 1, sleepers(80, 99, 20))
	e := r.begin(Question{Kind: trace.Tune})
	r.refuse = true
	r.until(e)
	if x := r.only(); r.workers() != 1 || x.Kept || !strings.Contains(story(x), "set num_workers: no") {
		t.Errorf("left with %d workers:\n%s", r.workers(), story(x))
	}
}

// TestTuneNoWayBack: if the settings at the start cannot come back, the best ones stay, and not those tried
// last.
func TestTuneNoWayBack(t *testing.T) {
	r := newWorld(t, 1, func(knobs []knob.Setting) (float64, float64, float64) {
		if n := number(knob.ValueOf(knobs, "num_workers")); n > 4 {
			return 70, 20, 80
		}
		wall, busy, load := sleepers(80, 99, 20)(knobs)
		return max(wall, 30), busy, load
	})
	r.forward = true
	x := r.tuned(Question{})
	best, most := 0, 0.0
	for i := range x.Decisions {
		if d := &x.Decisions[i]; d.After.Steps > 0 && float64(d.After.Samples)/float64(d.After.Active) > most {
			best, most = number(knob.ValueOf(d.Knobs, "num_workers")), float64(d.After.Samples)/float64(d.After.Active)
		}
	}
	if last := &x.Decisions[len(x.Decisions)-1]; r.workers() != best || last.Verdict == trace.Best {
		t.Errorf("left with %d workers, and %d were the best:\n%s", r.workers(), best, story(x))
	}
}

// TestTuneNeighbours: the best settings are measured again when other processes come or go between
// them and a trial, or are there and the trial is slower than expected, and only then.
func TestTuneNeighbours(t *testing.T) {
	for _, c := range []struct {
		before, after float64 // percent of the cores that others use
		slower        float64 // all is so many times slower from the first trial on
	}{{0, 50, 5}, {0, 0, 1}, {50, 50, 5}, {50, 50, 1}} {
		slow := 1.0
		r := newWorld(t, 1, func(knobs []knob.Setting) (float64, float64, float64) {
			wall, busy, load := sleepers(80, 99, 20)(knobs)
			return wall * slow, busy * slow, load * slow
		})
		e := r.begin(Question{Kind: trace.Tune, Tuning: &Tuning{Window: r.session.Snapshot}})
		for i := 0; !e.Look(r.session.Snapshot(0, 0)); i++ {
			others := c.before
			if r.index > 0 {
				others, slow = c.after, c.slower
			}
			r.session.Add(&trace.Drained{Now: r.now, Gauges: []trace.GaugePoint{
				{Name: trace.GaugeCPUOurs, Point: trace.Point{T: r.now, V: 10}}, {Name: trace.GaugeCPUOthers, Point: trace.Point{T: r.now, V: others}},
			}})
			r.train(5)
		}
		x := r.only()
		again := strings.Contains(story(x), "measured again")
		if again != (c.slower > 1) || r.workers() < 4 || !x.Kept {
			t.Errorf("neighbours %+v, measured again %v, left with %d workers:\n%s", c, again, r.workers(), story(x))
		}
	}
}

// TestTuneOutlived: a run that ends during a tune stays as it is, and a gain that was not proved is
// called so.
func TestTuneOutlived(t *testing.T) {
	r := newWorld(t, 1, sleepers(80, 99, 20))
	e := r.begin(Question{Kind: trace.Tune})
	for r.workers() == 1 {
		e.Look(r.session.Snapshot(0, 0))
		r.train(5)
	}
	e.Abandon(r.session.Snapshot(0, 0))
	if x := r.only(); x.Kept || x.Why != trace.RunEnded {
		t.Errorf("%s", story(x))
	}
}

func TestTuneRefusals(t *testing.T) {
	for _, c := range []struct {
		tuning Tuning
		want   string
	}{
		{Tuning{Knobs: []string{"shuffle"}}, "it is no knob that a tune changes"},
		{Tuning{Knobs: []string{"device_transforms"}}, "no knob of that name"},
		{Tuning{Knobs: []string{"pin_memory"}}, "this device copies nothing"},
		{Tuning{Workers: 1}, "lower num_workers first"},
	} {
		r := newWorld(t, 2, sleepers(80, 99, 20))
		if _, err := New(Question{Kind: trace.Tune, Tuning: &c.tuning}, r.session.Snapshot(0, 0), r, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.tuning, err)
		}
	}
}

// TestTuneNeverSlower: whatever the world and its noise are, and whenever the tune is stopped, the
// run is not left slower than it was at the start.
func TestTuneNeverSlower(t *testing.T) {
	better := 0
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 3))
		world := sleepers(20+200*random.Float64(), 1+6*random.Float64(), 5+40*random.Float64())
		r := newWorld(t, random.IntN(9), world)
		r.random, r.noise = random, 0.3*random.Float64()
		found := r.rate()
		e := r.begin(Question{Kind: trace.Tune, Budget: time.Minute, Tuning: &Tuning{Window: r.session.Snapshot}})
		for stop := r.step + random.Int32N(2000); r.step < stop && !e.Look(r.session.Snapshot(0, 0)); {
			r.train(5)
		}
		if seed%3 == 0 {
			e.Stop(r.session.Snapshot(0, 0))
		}
		r.until(e)
		if now := r.rate(); now < found*(1-worth) {
			t.Errorf("seed %d: %.0f/s became %.0f/s:\n%s", seed, found, now, story(r.only()))
		} else if now > found*1.05 {
			better++
		}
	}
	if better < 4 {
		t.Errorf("better in %d of 15 worlds only", better)
	}
}

// TestInline: without workers, knobs of workers stay as the run shows them, and changing another knob
// changes only that knob.
func TestInline(t *testing.T) {
	sp := &space{}
	for _, c := range []struct{ prefetch, name, value, want string }{
		{"2", prefetchFactor, "4", "num_workers=0 prefetch_factor=2 persistent_workers=off in_order=on"},
		{"2", inOrder, "off", "num_workers=0 prefetch_factor=2 persistent_workers=off in_order=off"},
		{"2", persistent, "on", "num_workers=0 prefetch_factor=2 persistent_workers=off in_order=on"},
		{"2", numWorkers, "4", "num_workers=4 prefetch_factor=2 persistent_workers=off in_order=on"},
		{"0", numWorkers, "4", "num_workers=4 prefetch_factor=2 persistent_workers=off in_order=on"},
	} {
		base := []knob.Setting{{Name: numWorkers, Value: "0"}, {Name: prefetchFactor, Value: c.prefetch}, {Name: persistent, Value: "off"}, {Name: inOrder, Value: "on"}}
		if got := knob.Join(sp.with(base, c.name, c.value), " "); got != c.want {
			t.Errorf("%s=%s with prefetch_factor %s: %s", c.name, c.value, c.prefetch, got)
		}
	}
	four := []knob.Setting{{Name: numWorkers, Value: "4"}, {Name: prefetchFactor, Value: "4"}, {Name: persistent, Value: "on"}}
	if got := knob.Join(sp.with(four, numWorkers, "0"), " "); got != "num_workers=0 prefetch_factor=0 persistent_workers=off" {
		t.Errorf("without workers: %s", got)
	}
}

// TestNearest: what the advisor would try stands for a value that a tune can choose.
func TestNearest(t *testing.T) {
	for _, c := range []struct{ now, advised, want string }{
		{"4", "8", "8"}, {"12", "20", "24"}, {"4", "5", "6"}, {"48", "100", "64"}, {"64", "100", ""}, {"16", "5", "4"}, {"2", "5", "6"}, {"off", "on", ""},
	} {
		if got, ok := nearest(workerCounts, c.now, c.advised); got != c.want || ok != (c.want != "") {
			t.Errorf("%s to %s: %q", c.now, c.advised, got)
		}
	}
}
