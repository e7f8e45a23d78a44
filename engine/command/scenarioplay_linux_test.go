package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

var (
	truth = flag.Bool("truth", false, "follow the advice in every scenario and print the table (minutes)")
	only  = flag.String("rows", "", "only the scenarios whose name matches this expression")
)

// Each setting is measured for at least this long and this many steps, but never longer than the limit.
const (
	measureFor   = 2500 * time.Millisecond
	measureSteps = 60
	measureLimit = 8 * time.Second
)

// worthIt is the gain from which advice has helped. A knob that was not advised and gains more
// was missed.
const worthIt = 0.05

// testFor is the budget of an A/B test. That is less than what A on the screen has, so that more tests end undecided.
const testFor = 90 * time.Second

// doubtful is the gain up to which a host that drifts may be the reason. Up to it, rates before and after a change do not
// tell whether the advice helped, so that the settings take turns.
const doubtful = 1.

// most is how often advice is followed. A scenario that needs more is stuck.
const most = 8

// TestScenarios follows the advice literally in every scenario, until there is none.
func TestScenarios(t *testing.T) {
	if !*truth {
		t.Skip("takes minutes; run it with -truth, or make truth")
	}
	rows := regexp.MustCompile(*only)
	data := folders{t: t, dir: t.TempDir(), made: map[dataKind]string{}}
	fmt.Printf("\nThe advice, followed until there is none, on %d cores. Gains are throughput over that at the start;\n", host.Cores())
	fmt.Printf("\"missed\" is what the knobs that an expert would set bring on top of that.\n\n")
	fmt.Println("| scenario | verdict | followed | gain | missed | end | helped | harmed | others' cores |")
	fmt.Println("|---|---|---|--:|--:|---|---|--:|--:|")
	helped, expected, played, harmed := 0, 0, 0, 0
	var details []string
	var scores []score
	for i := range scenarios {
		sc := &scenarios[i]
		if !rows.MatchString(sc.name) {
			continue
		}
		p := sc.play(t, data.of(sc.data))
		fmt.Println(p.row())
		details = append(details, p.details())
		scores = append(scores, score{name: sc.name, outcomes: p.outcomes})
		played++
		if p.helped() {
			helped++
		}
		if p.verdictRight() && p.knobRight() && p.endRight() {
			expected++
		}
		if harmed += p.harmed; p.harmed > 0 {
			t.Errorf("%s: advice that harms: %s", sc.name, strings.Join(p.turns, "; "))
		}
		if p.repeated != "" {
			t.Errorf("%s: advised again although it failed: %s", sc.name, p.repeated)
		}
		if p.replayed != p.last.Text() {
			t.Errorf("%s: the session's file says %q, the session said %q", sc.name, p.replayed, p.last.Text())
		}
	}
	fmt.Printf("\nThe advice helped in %d of %d scenarios, and %d pieces of it harmed; %d are as expected in every point, (!) marks the others.\n\n%s\n",
		helped, played, harmed, expected, strings.Join(details, "\n"))
	fmt.Printf("What was predicted of each change, the advised ones and the expert's:\n\n")
	if inside, of, width := scoreTable(scores); float64(inside) < coverage*float64(of) || width > widthMost {
		t.Errorf("%d of %d outcomes inside what was predicted, median half-width %.2f", inside, of, width)
	}
	if 10*helped < 9*played {
		t.Errorf("the advice helped in %d of %d scenarios, fewer than 9 in 10", helped, played)
	}
}

// TestAdviceIsFollowed plays two scenarios whose first advice is the same under any load on the
// machine.
func TestAdviceIsFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	data := folders{t: t, dir: t.TempDir(), made: map[dataKind]string{}}
	for i := range scenarios {
		sc := &scenarios[i]
		if sc.name != "inline, reads wait" && sc.name != "nothing wrong" {
			continue
		}
		p := sc.play(t, data.of(sc.data))
		if !p.knobRight() || p.repeated != "" || p.replayed != p.last.Text() {
			t.Errorf("%s\n%s\nagain: %q, from the file: %q", p.row(), p.details(), p.repeated, p.replayed)
		}
	}
}

// play is the result of a scenario.
type play struct {
	*scenario
	first    advice.Advice // at the start
	last     advice.Advice // when there was none left to follow
	replayed string        // last, from the session's file
	steps    []followed
	rates    []float64 // samples/s of each measured segment
	best     stats.Change
	expert   []knob.Setting // all knobs with those of an expert
	repeated string
	others   float64 // cores that other processes used, on average
	outcomes []predict.Outcome
	turned   float64  // what the changes in force gained by an A/B test, as a ratio; 0 where none was made
	harmed   int      // pieces of advice
	turns    []string // what A/B tests found of changes that were followed by a lower rate
}

// followed is a piece of advice and what it gained.
type followed struct {
	knob, value string
	ratio       float64 // of the rates after and before, or what an A/B test found; 1 where the test went back
	text        string
	test        *attribution.Experiment // nil where the value was set
	was         []knob.Setting          // all knobs before
}

func (f *followed) String() string {
	switch {
	case f.test == nil:
		return fmt.Sprintf("%s=%s %+.0f %%", f.knob, f.value, 100*(f.ratio-1))
	case f.test.Kept:
		return fmt.Sprintf("%s=%s A/B test: %v, kept", f.knob, f.value, &f.test.Change.Throughput)
	}
	return fmt.Sprintf("%s=%s A/B test: %v, taken back", f.knob, f.value, &f.test.Change.Throughput)
}

// gain is what all the changes gained that are in force. What an A/B test took back gained nothing, however the rate drifted.
func (p *play) gain() float64 {
	if p.turned > 0 {
		return p.turned - 1
	}
	g := 1.
	for i := range p.steps {
		g *= p.steps[i].ratio
	}
	return g - 1
}

// missed is the gain of the best knobs over the end. It is the measured gain, which may be
// chance, unless it is known to be nothing.
func (p *play) missed() float64 {
	if p.best.Answer == stats.Same || p.best.Ratio == 0 {
		return 0
	}
	return p.best.Ratio - 1
}

// end says how the scenario ended.
func (p *play) end() string {
	switch {
	case p.gain() > worthIt:
		return "gain"
	case p.last.First().Value != "":
		return "stuck"
	case p.last.Verdict.Class == advice.DeviceBound && len(p.last.Findings) == 0:
		return "none"
	}
	return "told"
}

// helped reports whether the advice gained something, or said that no knob helps if none is known
// to help. Advice that repeats what failed has not helped.
func (p *play) helped() bool {
	end := p.end()
	return p.repeated == "" && (end == "gain" || end != "stuck" && p.missed() <= worthIt)
}

func oneOf(list, word string) bool {
	for w := range strings.SplitSeq(list, "|") {
		if w == word {
			return true
		}
	}
	return false
}

func (p *play) verdictRight() bool { return oneOf(p.verdict, p.first.Verdict.Class) }

func (p *play) knobRight() bool {
	f := p.first.First()
	if f.Value == "" {
		return oneOf(p.knob, "-")
	}
	return oneOf(p.knob, f.Knob)
}

func (p *play) endRight() bool {
	return oneOf(p.scenario.end, p.end()) && p.helped()
}

func mark(ok bool) string {
	if ok {
		return ""
	}
	return " (!)"
}

func (p *play) row() string {
	path := []string{}
	for i := range p.steps {
		path = append(path, p.steps[i].String())
	}
	if len(path) == 0 {
		path = []string{"-"}
	}
	return fmt.Sprintf("| %s | %s%s | %s%s | %+.0f %% | %+.0f %% | %s%s | %v | %d | %.1f |", p.name,
		p.first.Verdict.Class, mark(p.verdictRight()), strings.Join(path, ", "), mark(p.knobRight()),
		100*p.gain(), 100*p.missed(), p.end(), mark(p.endRight()), p.helped(), p.harmed, p.others)
}

// details are the sentences of the advice.
func (p *play) details() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %.0f/s: %s\n", p.name, p.rates[0], p.first.Verdict.Text)
	for i, f := range p.steps {
		fmt.Fprintf(&b, "  -> %s\n  %.0f/s\n", f.text, p.rates[i+1])
	}
	fmt.Fprintf(&b, "  = %s: %s\n  with %s: %v", p.last.Verdict.Class, p.last.Text(), p.scenario.best, &p.best)
	for _, turns := range p.turns {
		fmt.Fprintf(&b, "\n  by turns: %s", turns)
	}
	return b.String()
}

// play runs the scenario.
func (sc *scenario) play(t *testing.T, data string) *play {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range inCores(sc.neighbours) {
		defer compete(t)()
	}
	if sc.data.cold {
		defer chill(t, data)()
	}
	r := sc.start(ctx, t, data)
	ended := make(chan error, 1)
	go func() { ended <- r.train(ctx) }()
	p := &play{scenario: sc}
	failed := map[knob.Setting]bool{}
	for {
		s, rate := sc.measure(t, r)
		p.rates = append(p.rates, rate)
		p.last = advice.Of(s, s.Tally(s.Last.Segment), attribution.Segments(s))
		if n := len(p.steps); n > 0 {
			f := &p.steps[n-1]
			if f.test == nil {
				f.ratio = rate / p.rates[n-1]
			}
			if f.ratio < 1+worthIt {
				failed[knob.Setting{Name: f.knob, Value: f.value}] = true
			}
		} else {
			p.first = p.last
		}
		f := p.last.First()
		if f.Value == "" || len(p.steps) == most {
			break
		}
		advised := knob.Setting{Name: f.Knob, Value: f.Value}
		if failed[advised] {
			p.repeated = f.Text()
			break
		}
		next := followed{knob: f.Knob, value: f.Value, text: f.Text(), was: r.engine.Requested(), ratio: 1}
		if f.Tests() {
			if next.test = sc.test(t, r, advised); next.test.Kept {
				next.ratio = next.test.Change.Throughput.Ratio
			}
		} else {
			sc.set(t, r, advised)
		}
		p.steps = append(p.steps, next)
	}
	end := r.engine.Requested()
	sc.tryBest(t, r, p)
	scored := all(r.session).Last.Segment
	sc.doubt(t, r, p, end)
	sc.retest(t, r, p, end)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("%s: %v", sc.name, err)
	}
	p.check(t, r, scored)
	return p
}

// test makes an A/B test of a value, as A on the screen does.
func (sc *scenario) test(t *testing.T, r *run, changes ...knob.Setting) *attribution.Experiment {
	t.Helper()
	answered := make(chan error, 1)
	r.tries.Ask([]experiment.Question{{Kind: trace.Paired, Knobs: changes, Budget: testFor}}, func(err error) { answered <- err })
	select {
	case err := <-answered:
		if err != nil {
			t.Fatalf("%s: %v: %v", sc.name, changes, err)
		}
	case <-time.After(5 * testFor):
		t.Fatalf("%s: the A/B test of %v never ended", sc.name, changes)
	}
	s := all(r.session)
	xs := attribution.Experiments(s, attribution.Segments(s))
	return &xs[len(xs)-1]
}

// doubt looks for advice that harmed, among values that were set and followed by a lower rate: the host may have drifted. So
// each takes turns with the settings before it. It harmed if it lost 5 % or, where it stayed, anything.
func (sc *scenario) doubt(t *testing.T, r *run, p *play, end []knob.Setting) {
	t.Helper()
	for i := range p.steps {
		f := &p.steps[i]
		stays := knob.ValueOf(end, f.knob) == f.value
		if f.test != nil || f.ratio >= 1 || f.ratio >= 1-worthIt && !stays {
			continue
		}
		sc.set(t, r, f.was...)
		sc.measure(t, r)
		x := sc.test(t, r, knob.Setting{Name: f.knob, Value: f.value})
		p.turns = append(p.turns, fmt.Sprintf("%s=%s %v", f.knob, f.value, &x.Change.Throughput))
		if x.Change.Throughput.Ratio > 0 {
			f.ratio = x.Change.Throughput.Ratio
		}
		if harms(&x.Change.Throughput, stays) {
			p.harmed++
		}
	}
}

// harms reports whether a change harmed by what turns found of it: it lost 5 %, certain or not, or stayed and is slower.
func harms(c *stats.Change, stays bool) bool {
	return c.Ratio > 0 && c.Ratio < 1-worthIt || stays && c.Answer == stats.Different && c.Ratio < 1
}

func TestHarms(t *testing.T) {
	for _, c := range []struct {
		stats.Change
		stays, want bool
	}{
		{stats.Change{}, true, false},
		{stats.Change{Ratio: 1.2}, true, false},
		{stats.Change{Ratio: 0.97}, true, false},
		{stats.Change{Ratio: 0.97, Answer: stats.Different}, true, true},
		{stats.Change{Ratio: 0.97, Answer: stats.Different}, false, false},
		{stats.Change{Ratio: 0.9}, false, true},
	} {
		if got := harms(&c.Change, c.stays); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// retest lets settings take turns where rates that may have drifted would decide whether the advice helped: those at the end
// with those at the start, and the expert's with those at the end.
func (sc *scenario) retest(t *testing.T, r *run, p *play, end []knob.Setting) {
	t.Helper()
	turns := func(from, to []knob.Setting) *stats.Change {
		if len(advice.Changed(from, to)) == 0 {
			return &stats.Change{Answer: stats.Same, Ratio: 1, Lo: 1, Hi: 1}
		}
		sc.set(t, r, from...)
		sc.measure(t, r)
		x := sc.test(t, r, advice.Changed(from, to)...)
		return &x.Change.Throughput
	}
	inDoubt := func(gain float64) bool { return gain > worthIt && gain <= doubtful }
	if inDoubt(p.gain()) {
		c := turns(p.steps[0].was, end)
		p.turned = c.Ratio
		p.turns = append(p.turns, fmt.Sprintf("all of it %v", c))
	}
	if p.best.Answer == stats.Unknown && inDoubt(p.missed()) {
		if c := turns(end, p.expert); c.Ratio > 0 {
			p.best = *c
		}
	}
}

// tryBest measures the knobs of an expert against the end.
func (sc *scenario) tryBest(t *testing.T, r *run, p *play) {
	t.Helper()
	end := all(r.session).Last.Segment
	var changes []knob.Setting
	for k := range strings.FieldsSeq(sc.best) {
		name, value, _ := strings.Cut(k, "=")
		if n := inCores(value); n > 0 {
			value = strconv.Itoa(n)
		}
		changes = append(changes, knob.Setting{Name: name, Value: value})
	}
	sc.set(t, r, changes...)
	p.expert = r.engine.Requested()
	s, _ := sc.measure(t, r)
	rows := attribution.Segments(s)
	if s.Last.Segment == end { // the run has the best knobs already
		return
	}
	i := slices.IndexFunc(rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == end })
	p.best = attribution.Compare(rows, &rows[i], &rows[len(rows)-1]).Throughput
}

// check compares the last advice with that of the file, and sums up the gauges. The predictions are those up to a segment.
func (p *play) check(t *testing.T, r *run, scored int32) {
	t.Helper()
	s, err := store.Open(r.file)
	if err != nil {
		t.Fatal(err)
	}
	live, file := all(r.session), all(s)
	rows := attribution.Segments(file)
	p.outcomes = slices.DeleteFunc(predict.Outcomes(file, rows), func(o predict.Outcome) bool { return rows[o.Row].Segment.Index > scored })
	p.replayed = p.last.Text()
	if a, b := advised(live), advised(file); a != b {
		p.replayed = fmt.Sprintf("%s (live %s)", b, a)
	}
	share, _, _ := live.GaugeDuringSteps(trace.GaugeCPUOthers)
	p.others = share / 100 * float64(max(1, len(host.Affinity())))
}

func advised(s *trace.Snapshot) string {
	a := advice.Of(s, s.Tally(s.Last.Segment), attribution.Segments(s))
	return a.Text()
}

// inCores parses "3", "C" and "2C", where C is the number of cores. It returns 0 for anything
// else.
func inCores(text string) int {
	digits, ok := strings.CutSuffix(text, "C")
	n, err := strconv.Atoi(cmp.Or(digits, "1"))
	switch {
	case err != nil || text == "":
		return 0
	case ok:
		return n * host.Cores()
	}
	return n
}

// start opens the run on the scenario's device.
func (sc *scenario) start(ctx context.Context, t *testing.T, data string) *run {
	t.Helper()
	o := newOptions("scenarios")
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.addTraining(fs)
	dir, name := t.TempDir(), "scenario"
	if *keepIn != "" {
		dir, name = *keepIn, strings.NewReplacer(" ", "-", ",", "").Replace(sc.name)
	}
	args := []string{"--data", data, "--session", filepath.Join(dir, name+store.Ext)}
	for a := range strings.FieldsSeq(sc.knobs) {
		if n := inCores(a); n > 0 {
			a = strconv.Itoa(n)
		}
		args = append(args, a)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	clock := trace.NewClock()
	d, err := sc.open(o, clock)
	if err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	r, err := o.newRunOn(ctx, d, clock, func(string, int, int) {})
	if err != nil {
		t.Fatalf("%s: %v", sc.name, err)
	}
	return r
}

func (sc *scenario) open(o *options, clock trace.Clock) (*machine.Device, error) {
	if sc.device != "" {
		return machine.Open(sc.device, false, clock)
	}
	p, err := emu.Find("h100")
	if err != nil {
		return nil, err
	}
	p.Card.Pinned, p.Card.Pageable = cmp.Or(sc.link.pinned, p.Card.Pinned), cmp.Or(sc.link.pageable, p.Card.Pageable)
	batch, err := strconv.Atoi(o.knobs.Text("batch_size"))
	p.Workload = &emu.Workload{Name: "scenario", BatchSize: batch, Compute: sc.step}
	return machine.Emulated(p, clock), err
}

// set changes knobs, and waits until the trace confirms it.
func (sc *scenario) set(t *testing.T, r *run, changes ...knob.Setting) {
	t.Helper()
	before, n := r.engine.Requested(), len(r.session.Snapshot(0, 0).Segments)
	if err := r.engine.Set(changes); err != nil {
		t.Fatalf("%s: %v: %v", sc.name, changes, err)
	}
	if len(advice.Changed(before, r.engine.Requested())) == 0 {
		return
	}
	for end := time.Now().Add(time.Minute); len(r.session.Snapshot(0, 0).Segments) == n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %v never took effect", sc.name, changes)
		}
	}
}

// measure waits until the newest segment can be judged, and returns its rate.
func (sc *scenario) measure(t *testing.T, r *run) (*trace.Snapshot, float64) {
	t.Helper()
	start := time.Now()
	for {
		time.Sleep(50 * time.Millisecond)
		s := r.session.Snapshot(0, 0)
		if len(s.Segments) > 0 {
			tally := s.Tally(s.Segments[len(s.Segments)-1].Index)
			enough := tally.Steady.Steps >= measureSteps && tally.Steady.Active() >= int64(measureFor)
			if enough || time.Since(start) > measureLimit && tally.Steady.Steps > 0 {
				break
			}
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: no step in a minute", sc.name)
		}
	}
	s := all(r.session)
	rows := attribution.Segments(s)
	rate := rows[len(rows)-1].SamplesPerSecond
	if math.IsNaN(rate) || rate <= 0 {
		t.Fatalf("%s: %v samples/s", sc.name, rate)
	}
	return s, rate
}
