package command

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// tuned are the scenarios in which a tune is compared with a grid of all settings. In some the
// loader's knobs matter, in different ways; in some no knob matters. knobs are the knobs of the
// grid; if empty, all of gridAxes except in_order.
var tuned = []struct{ name, knobs string }{
	{"inline, reads wait", ""},
	{"reads wait, one worker", ""},
	{"reads wait, many workers needed", ""},
	{"computing, fewer workers than cores", ""},
	{"half computing, half waiting", ""},
	{"cpu device, inline, reads wait", "num_workers prefetch_factor persistent_workers"},
	{"straggler, in order", "num_workers prefetch_factor in_order"},
	{"tiny epochs, workers start anew", ""},
	{"copies of pageable memory", ""},
	{"computing, 8 workers a core", "num_workers prefetch_factor pin_memory"},
	{"nothing wrong, short steps", ""},
}

// gridAxes are the values of the grid. A tune may choose the same values.
var gridAxes = []struct {
	knob   string
	values []string
}{
	{"num_workers", []string{"0", "1", "2", "4", "8", "16"}}, {"prefetch_factor", []string{"2", "4"}},
	{"pin_memory", []string{"off", "on"}}, {"persistent_workers", []string{"off", "on"}}, {"in_order", []string{"on", "off"}},
}

// What a tune must reach, compared with the grid.
const (
	shareLeast = 0.95 // of the throughput of the grid's best settings
	stepsMost  = 0.25 // of the grid's steps
)

// TestTuning compares tunes with grids of all settings. The budget of a tune is a quarter of the
// grid's time. Both results are then measured in turns, because the best of many single
// measurements is partly the luckiest.
func TestTuning(t *testing.T) {
	if !*truth {
		t.Skip("takes minutes; run it with -truth, or make truth")
	}
	rows := regexp.MustCompile(*only)
	data := folders{t: t, dir: t.TempDir(), made: map[dataKind]string{}}
	fmt.Printf("\nTuning against exhaustive grids over the same settings, on %d cores; gains are over the settings at the start.\n\n", host.Cores())
	fmt.Println("| scenario | grid | its best | gain | tuned to | share of the best | steps | of the grid's | tried |")
	fmt.Println("|---|--:|---|--:|---|--:|--:|--:|--:|")
	var details []string
	played, met := 0, 0
	for _, c := range tuned {
		i := slices.IndexFunc(scenarios, func(sc scenario) bool { return sc.name == c.name })
		if i < 0 {
			t.Fatalf("there is no scenario %q", c.name)
		}
		if !rows.MatchString(c.name) {
			continue
		}
		names := strings.Fields(c.knobs)
		if len(names) == 0 {
			names = []string{"num_workers", "prefetch_factor", "pin_memory", "persistent_workers"}
		}
		p := scenarios[i].tune(t, data.of(scenarios[i].data), names)
		fmt.Println(p.row())
		details = append(details, p.name+"\n  "+strings.Join(p.said, "\n  "))
		if played++; p.share >= shareLeast && p.part() < stepsMost {
			met++
		}
	}
	fmt.Printf("\n%d of %d reached %.0f %% of the grid's best in under %.0f %% of its steps.\n\n%s\n", met, played, 100*shareLeast, 100*stepsMost, strings.Join(details, "\n"))
	if met < played {
		t.Errorf("%d of %d tunes met the bars", met, played)
	}
}

// tunePlay is the result of a tune beside a grid.
type tunePlay struct {
	*scenario
	start, best, end []knob.Setting
	cells            int
	gain             float64 // of the grid's best settings over the start, measured in the grid
	share            float64 // throughput after the tune, as a part of that of the grid's best, measured in turns
	grid, steps      int64   // the steps that each took
	tried            int
	said             []string
}

// part is the number of steps of the tune as a part of the grid's.
func (p *tunePlay) part() float64 { return float64(p.steps) / float64(p.grid) }

func (p *tunePlay) row() string {
	to := func(knobs []knob.Setting) string {
		if slices.Equal(p.start, knobs) {
			return "as it began"
		}
		return settingText(advice.Chosen(p.start, knobs))
	}
	return fmt.Sprintf("| %s | %d | %s | %+.0f %% | %s | %.0f %%%s | %d | %.0f %%%s | %d |", p.name, p.cells, to(p.best), 100*(p.gain-1),
		to(p.end), 100*p.share, mark(p.share >= shareLeast), p.steps, 100*p.part(), mark(p.part() < stepsMost), p.tried)
}

func settingText(knobs []knob.Setting) string {
	words := make([]string, len(knobs))
	for i, k := range knobs {
		words[i] = k.Name + "=" + k.Value
	}
	return strings.Join(words, " ")
}

// tune measures the grid, tunes from the scenario's start, and measures both results in turns.
func (sc *scenario) tune(t *testing.T, data string, names []string) *tunePlay {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range inCores(sc.neighbours) {
		defer compete(t)()
	}
	r := sc.start(ctx, t, data)
	ended := make(chan error, 1)
	go func() { ended <- r.train(ctx) }()
	_, began := sc.measure(t, r)
	p := &tunePlay{scenario: sc, start: r.engine.Requested()}
	taken := func() (steps, active int64) {
		total := r.session.Snapshot(0, 0).Total
		return total.Steps, total.Active()
	}
	s0, t0 := taken()
	top := 0.0
	for _, cell := range cells(names) {
		p.cells++
		sc.set(t, r, cell...)
		if _, rate := sc.measure(t, r); rate > top {
			top, p.best = rate, r.engine.Requested()
		}
	}
	s1, t1 := taken()
	p.grid, p.gain = s1-s0, top/began
	s0 = s1 // measuring the result counts as steps of the tune
	sc.set(t, r, advice.Changed(r.engine.Requested(), p.start)...)
	sc.measure(t, r)

	values := map[string][]string{}
	for _, a := range gridAxes {
		values[a.knob] = a.values
	}
	answered := make(chan error, 1)
	r.tries.Ask([]experiment.Question{{
		Kind: trace.Tune, Budget: time.Duration(t1-t0) / 4, Tuning: &experiment.Tuning{Knobs: names, Values: values},
	}}, func(err error) { answered <- err })
	if err := <-answered; err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	s := all(r.session)
	xs := attribution.Experiments(s, attribution.Segments(s))
	x := &xs[len(xs)-1]
	p.tried, p.end = x.Tried(), r.engine.Requested()
	s1, _ = taken()
	p.steps = s1 - s0
	for i := range x.Decisions {
		p.said = append(p.said, x.Decisions[i].Text)
	}
	p.said = append(p.said, x.Text())
	p.share = 1
	if !slices.Equal(p.best, p.end) {
		p.share = sc.against(t, r, p.best, p.end)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("%s: %v", sc.name, err)
	}
	return p
}

// cells returns all settings of a grid over some knobs.
func cells(names []string) (out [][]knob.Setting) {
	out = [][]knob.Setting{nil}
	for _, a := range gridAxes {
		if !slices.Contains(names, a.knob) {
			continue
		}
		var next [][]knob.Setting
		for _, cell := range out {
			for _, v := range a.values {
				inline := knob.ValueOf(cell, "num_workers") == "0"
				switch {
				case inline && a.knob == "prefetch_factor":
					v = "0"
				case inline && a.knob == "persistent_workers":
					v = "off"
				case inline && a.knob == "in_order":
					v = "on"
				}
				one := append(slices.Clone(cell), knob.Setting{Name: a.knob, Value: v})
				if !slices.ContainsFunc(next, func(o []knob.Setting) bool { return slices.Equal(o, one) }) {
					next = append(next, one)
				}
			}
		}
		out = next
	}
	return out
}

// turns is how many turns two settings take: ABBA.
const turns = 4

// against returns the throughput of b over that of a, measured in turns, as a geometric mean.
func (sc *scenario) against(t *testing.T, r *run, a, b []knob.Setting) float64 {
	t.Helper()
	sum := 0.0
	for i := range turns {
		order := [2]int{0, 1}
		if i%2 == 1 {
			order = [2]int{1, 0}
		}
		var rates [2]float64
		for _, side := range order {
			sc.set(t, r, advice.Changed(r.engine.Requested(), [2][]knob.Setting{a, b}[side])...)
			_, rates[side] = sc.measure(t, r)
		}
		sum += math.Log(rates[1] / rates[0])
	}
	return math.Exp(sum / turns)
}
