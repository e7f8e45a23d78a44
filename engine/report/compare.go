package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Side is one of the two sessions to compare.
type Side struct {
	Session  string // the file or name that is shown; Meta.ID when empty
	Snapshot *trace.Snapshot
	Segment  string // its name, "A" or "#2"; empty for the settings that its report says to keep
	Job      string // how its ranks went together, in one sentence; empty for one session
}

// Comparison compares the settings of two sessions.
type Comparison struct {
	stats.Comparison
	Sides       [2]*Compared
	Settings    []Difference // the knobs that differ; with Traces, those known on both sides
	Environment []Difference // what else differs, Work first
	Work        []Difference // device, model and data; if any differs, the work is different
	Lines       []LineChange // of the script's code, the largest change first
	OneRun      bool         // both are segments of one run
	Turns       [2]float64   // samples/s of the two where they took turns, on which Throughput then rests; else 0
	Traces      bool         // a side was imported, and its settings are not recorded
	Steps       [2]int       // for two traces, how many steps of each side the change of throughput rests on; else 0
	Told        string       // a sentence that no setting made the change; empty where one may have
	Neighbours  string       // a sentence that other processes took more of the cores on one side; empty where they did not
}

// Compared holds the settings of one side, and what was measured with them.
type Compared struct {
	Session string
	Row     *attribution.SegmentStats
	Verdict advice.Verdict
	Memory  int64 // bytes of the device; 0 when unknown
	Job     string

	*account
}

// Difference is one thing that differs; "-" stands for a side that does not have it.
type Difference struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Compare relates b to a.
func Compare(a, b Side) (*Comparison, error) {
	c := &Comparison{}
	var h stats.History
	for i, side := range [2]*Side{&a, &b} {
		var err error
		if c.Sides[i], err = side.compared(); err != nil {
			return nil, err
		}
		for j := range c.Sides[i].rows {
			h.Learn(c.Sides[i].rows[j].Stretch)
		}
	}
	x, y := c.Sides[0], c.Sides[1]
	later := y.Row.Stretch
	if from, to := x.s.Meta.Started, y.s.Meta.Started; !from.IsZero() && !to.IsZero() {
		later.Centre += to.Sub(from).Nanoseconds()
	}
	c.Comparison = stats.Compare(x.Row.Stretch, later, h, stats.DefaultMargin)
	if i := y.rowIn(x); i >= 0 && &y.rows[i] != y.Row { // they are of one run, whose own report compares them
		c.Comparison, c.OneRun = attribution.Between(y.advice.Experiments, y.rows, &y.rows[i], y.Row), true
		if c.Pairs > 0 {
			_, c.Turns = inTurns(y.advice.Experiments, x.Row, y.Row)
		}
	}
	if c.Traces = x.s.Meta.Imported != "" || y.s.Meta.Imported != ""; c.Traces {
		c.Settings = slices.DeleteFunc(differences(x.traced(), y.traced()), func(d Difference) bool { return d.A == "-" || d.B == "-" })
		if x.s.Meta.Imported != "" && y.s.Meta.Imported != "" { // a few steps, and no number of samples
			if a, b := x.times(), y.times(); len(a) > 0 && len(b) > 0 {
				c.Throughput, c.Steps = stats.Ranked(a, b, stats.DefaultMargin), [2]int{len(a), len(b)}
			}
		}
	} else {
		c.Settings = differences(x.Row.Segment.Knobs, y.Row.Segment.Knobs)
	}
	c.Work, c.Lines = differences(x.work(), y.work()), changedLines(c.Sides)
	c.Environment = slices.Concat(c.Work, differences(x.environment(), y.environment()))
	if a, b, differ := neighbours(x, y); differ {
		c.Environment = append(c.Environment, Difference{"cores used by other processes", a, b})
		c.Neighbours = fmt.Sprintf("other processes used %s of the cores beside A, and %s beside B: part of the change may be theirs", a, b)
	}
	// On the cpu device, the loader's knobs take cores from the training.
	loader := len(c.Settings) == 0 ||
		x.s.Meta.DeviceKind != "cpu" && advice.SameWork(x.s.Meta.Specs, x.Row.Segment.Knobs, y.Row.Segment.Knobs)
	if len(c.Work) == 0 && loader && !c.Traces && c.Busy.Answer == stats.Different {
		c.Told = advice.ByItself(&c.Busy)
	}
	return c, nil
}

// otherNeighbours is from which difference of the share of the cores that other processes used the two sides had other neighbours.
const otherNeighbours = 0.1

// neighbours returns which share of the cores other processes used beside each side, and whether these differ enough to matter.
func neighbours(a, b *Compared) (of, to string, differ bool) {
	var shares [2]float64
	for i, d := range [...]*Compared{a, b} {
		t := d.s.Tally(d.Row.Segment.Index)
		c := predict.CoresOf(d.s, t.Start, t.End)
		if !c.Known || c.All <= 0 {
			return "", "", false
		}
		shares[i] = min(1, c.Others/c.All)
	}
	return units.Prose.Percent(shares[0]), units.Prose.Percent(shares[1]), math.Abs(shares[1]-shares[0]) >= otherNeighbours
}

// times returns how long the steps of a side took, in ns.
func (d *Compared) times() (out []float64) {
	for i := range d.s.Recent {
		if st := &d.s.Recent[i]; st.Segment == d.Row.Segment.Index && st.Flags&trace.FlagTransition == 0 {
			out = append(out, float64(st.Active()))
		}
	}
	return out
}

// traced returns the settings of a side as far as a trace would hold them.
func (d *Compared) traced() []knob.Setting {
	const name = "num_workers"
	value := knob.ValueOf(d.Row.Segment.Knobs, name)
	switch {
	case d.s.Meta.Imported != "":
		value = d.s.Meta.Profile.NumWorkers()
	case value != "" && value != "0":
		value = trace.SomeWorkers
	}
	return []knob.Setting{{Name: name, Value: value}}
}

// rowIn returns the row of d that has the settings of o, if both are of one run; else -1.
func (d *Compared) rowIn(o *Compared) int {
	a, b := d.s, o.s
	if a.Meta.ID != b.Meta.ID || !a.Meta.Started.Equal(b.Meta.Started) || a.Total.Steps != b.Total.Steps || a.Last.End != b.Last.End {
		return -1
	}
	return slices.IndexFunc(d.rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == o.Row.Segment.Index })
}

// compared finds the settings of a side.
func (d *Side) compared() (*Compared, error) {
	s, o := plain(d.Snapshot, Options{Session: d.Session})
	a := newAccount(s)
	fail := func(reason, hint string) error { return errs.New("compare", d.Session, reason, hint) }
	if s.Total.Steps == 0 || a.first < 0 {
		return nil, fail("it has no finished step", "run it longer")
	}
	row := a.kept
	if d.Segment != "" {
		var names []string
		if row, names = attribution.Named(a.rows, d.Segment); row < 0 {
			return nil, fail("it has no segment "+d.Segment, "name one of "+strings.Join(names, ", "))
		}
	}
	r := &a.rows[row]
	if r.Steps == 0 {
		return nil, fail("segment "+r.Name()+" has no steady step", "run it longer, or name another segment")
	}
	return &Compared{
		Session: sessionName(o.Session, &s.Meta), Row: r, Job: d.Job,
		Verdict: advice.Judge(s, a.tally(row)), Memory: s.HeldBytes(&r.Segment), account: a,
	}, nil
}

// work returns what a side trained, and on what. If that differs, the times are of
// different work.
func (d *Compared) work() []knob.Setting {
	m := &d.s.Meta
	return []knob.Setting{
		{Name: "device", Value: m.Device}, {Name: "model", Value: m.Model},
		{Name: "data set", Value: m.Dataset}, {Name: "data format", Value: m.Format},
	}
}

// epochSamples names the length of an epoch.
const epochSamples = "samples in an epoch"

// environment returns everything else that is known of a side, except what differs from
// run to run anyway.
func (d *Compared) environment() []knob.Setting {
	m := &d.s.Meta
	seed := itoa(m.Seed)
	if !m.Learns() { // the seed of another program's training is not known
		seed = ""
	}
	samples := ""
	if n := d.s.EpochSamples(); n > 0 {
		samples = units.Count(n)
	}
	return append([]knob.Setting{{Name: "gpustall", Value: m.Version}, {Name: "seed", Value: seed}, {Name: epochSamples, Value: samples}}, m.Host...)
}

// differences returns what differs between two lists, in their order.
func differences(a, b []knob.Setting) (out []Difference) {
	for _, k := range a {
		if v := knob.ValueOf(b, k.Name); v != k.Value {
			out = append(out, Difference{k.Name, cmp.Or(k.Value, "-"), cmp.Or(v, "-")})
		}
	}
	for _, k := range b {
		if !slices.ContainsFunc(a, func(o knob.Setting) bool { return o.Name == k.Name }) {
			out = append(out, Difference{k.Name, "-", cmp.Or(k.Value, "-")})
		}
	}
	return out
}

// Headline returns the answer in a sentence.
func (c *Comparison) Headline() string {
	t := &c.Throughput
	by := ""
	if c.Steps[0] > 0 {
		by = fmt.Sprintf(", by %s of A and %d of B", units.Counted(c.Steps[0], "step", "steps"), c.Steps[1])
	}
	switch {
	case t.Answer == stats.Unknown && by != "" && t.Ratio > 0:
		return fmt.Sprintf("The difference of B from A is not significant%s: the 95 %% interval is %s.", by, units.Prose.GainRange(t.Estimate()))
	case t.Answer == stats.Unknown:
		return fmt.Sprintf("The change of throughput from A to B is %s.", t.Undecided())
	case t.Answer == stats.Same:
		return fmt.Sprintf("B is as fast as A%s, within %s (%s)%s.", t.Mark(), units.Prose.Percent(c.Margin), units.Prose.GainRange(t.Estimate()), by)
	}
	return fmt.Sprintf("The throughput of B against A: %s%s (95 %% interval %s)%s.",
		units.Prose.Gain(t.Estimate()), t.Mark(), units.Prose.GainRange(t.Estimate()), by)
}

// Markdown writes the comparison down. It fails only when w does.
func (c *Comparison) Markdown(w io.Writer) error {
	d := &markup.Document{}
	d.Heading(1, "gpustall compare")
	d.Para("**%s**", c.Headline())
	for i, side := range c.Sides {
		d.Line("- %c is segment %s of %s%s: %s.", 'A'+i, side.Row.Name(),
			markup.Text(side.Session), advice.Brackets(side.Verdict.Labels), markup.Text(setup(&side.s.Meta)))
		if side.Job != "" {
			d.Line("  %s", markup.Text(side.Job))
		}
	}
	d.Line("")
	c.measured(d)
	c.linesDiffer(d)
	d.Heading(2, "Verdicts")
	for i, side := range c.Sides {
		d.Line("- %c: %s.", 'A'+i, side.Verdict.Text)
	}
	d.Line("")
	none := "None."
	if c.Traces {
		none = "Not known: of its settings a trace tells at most whether num_workers is 0, and no difference in that is on record."
	}
	differ(d, "Settings that differ", c.Settings, none)
	if c.Traces && len(c.Settings) > 0 {
		d.Para("Others are not known: a trace does not hold them.")
	}
	differ(d, "What else differs", c.Environment, "None.")
	return d.Markdown(w)
}

// measured writes the measurements of both sides, and what to know of them.
func (c *Comparison) measured(d *markup.Document) {
	if len(c.Work) > 0 {
		names := make([]string, len(c.Work))
		for i := range c.Work {
			names[i] = c.Work[i].Name
		}
		d.Para("Not the same work: the sides differ in %s, so their rates say little of the settings.", strings.Join(names, ", "))
	}
	if c.Told != "" {
		d.Para("%s.", markup.Sentence(c.Told))
	}
	d.Table(c.measurements())
	if c.Neighbours != "" {
		d.Para("**%s.**", markup.Sentence(c.Neighbours))
	}
	if drift := c.Throughput.LessDrift(); drift != "" {
		d.Para("**%s.**", markup.Sentence(drift))
	}
	if c.OneRun {
		d.Sentences("~ marks a change without an interval.", "Both are segments of one run, and are compared as its report does.")
	} else {
		d.Sentences(
			"~ marks a change without an interval.",
			c.interval(),
			"What differs from run to run (the page cache, neighbours, clock rates) is in the difference and not in the interval: repeat both to tell.")
	}
}

// interval says what the interval holds.
func (c *Comparison) interval() string {
	if c.Steps[0] > 0 {
		return "The change of throughput is that of the median steps. Its interval follows from the ranks of all steps, taken as independent, and holds what varies within each trace."
	}
	return "The interval holds what varies within each run."
}

// differ lists differences, or says that there are none.
func differ(d *markup.Document, what string, list []Difference, none string) {
	d.Heading(2, what)
	if len(list) == 0 {
		d.Para("%s", none)
		return
	}
	rows := [][]string{{"name", "A", "B"}}
	for _, one := range rewrite(apart(list), markup.Text) {
		rows = append(rows, []string{one.Name, one.A, one.B})
	}
	d.Table(rows)
}

// roomy is how long two texts may be, in characters, before the table may cut their ends.
const roomy = 36

// apart leaves out the words with which both long texts of a difference begin. The table
// cuts the ends of texts, which are the parts that differ.
func apart(list []Difference) []Difference {
	out := slices.Clone(list)
	for i := range out {
		d := &out[i]
		if max(utf8.RuneCountInString(d.A), utf8.RuneCountInString(d.B)) <= roomy {
			continue
		}
		n := 0
		for n < min(len(d.A), len(d.B)) && d.A[n] == d.B[n] {
			n++
		}
		if n = strings.LastIndexByte(d.A[:n], ' ') + 1; n > 0 {
			d.A, d.B = "… "+d.A[n:], "… "+d.B[n:]
		}
	}
	return out
}

// measurements sets both sides next to each other.
func (c *Comparison) measurements() [][]string {
	a, b := c.Sides[0], c.Sides[1]
	rows := [][]string{{"measurement", ">A", ">B", ">change"}}
	busy := certain(&c.Busy, perSample(a.Row), perSample(b.Row))
	add := func(name string, value func(*Compared) string, changed string) {
		rows = append(rows, []string{name, value(a), value(b), changed})
	}
	if c.Steps[0] > 0 {
		perSecond := func(d *Compared) float64 { return 1e9 / max(1, stats.Median(d.times())) }
		add("steps a second, median", func(d *Compared) string { return units.Rate(perSecond(d)) }, certain(&c.Throughput, perSecond(a), perSecond(b)))
	} else if rates := c.Turns; rates[0] > 0 {
		rows = append(rows, []string{byTurns, units.Rate(rates[0]) + "/s", units.Rate(rates[1]) + "/s", units.Prose.Gain(c.Throughput.Estimate())})
		busy = change(perSample(a.Row), perSample(b.Row)) // of other steps than those in turns
	} else {
		add("throughput", func(d *Compared) string { return rate(d.Row) },
			certain(&c.Throughput, a.Row.SamplesPerSecond, b.Row.SamplesPerSecond))
	}
	if row := c.epochs(); row != nil {
		rows = append(rows, row)
	}
	for _, q := range []struct {
		name string
		of   func(*attribution.SegmentStats) float64
	}{
		{"step time, mean", func(r *attribution.SegmentStats) float64 { return float64(r.Wall) / float64(r.Steps) }},
		{"step time, median", func(r *attribution.SegmentStats) float64 { return float64(r.P50) }},
		{"step time, p95", func(r *attribution.SegmentStats) float64 { return float64(r.P95) }},
	} {
		add(q.name, func(d *Compared) string { return timeOf(q.of(d.Row)) }, change(q.of(a.Row), q.of(b.Row)))
	}
	add("device time a sample", func(d *Compared) string { return deviceTime(d.Row) }, busy)
	if a.Memory > 0 || b.Memory > 0 {
		add("device memory held", func(d *Compared) string {
			if d.Memory == 0 {
				return "-"
			}
			return units.Prose.Bytes(d.Memory)
		}, change(float64(a.Memory), float64(b.Memory)))
	}
	share := func(name string, of func(*attribution.SegmentStats) float64) {
		x, y := of(a.Row), of(b.Row)
		rows = append(rows, []string{name, units.Prose.Percent(x), units.Prose.Percent(y), units.Points(y - x)})
	}
	share("device utilisation", func(r *attribution.SegmentStats) float64 { return r.Utilisation })
	share("device waits for data", func(r *attribution.SegmentStats) float64 { return r.DataShare })
	if p, q := a.s.Meta.Profile, b.s.Meta.Profile; p != nil && q != nil && len(p.GPUs) > 0 && len(q.GPUs) > 0 {
		rows = append(rows, compareGPUs(p, q)...)
	}
	const least = 0.01 // the share of a cause that gets a row
	for cause := range trace.Cause(trace.NumCauses) {
		of := func(r *attribution.SegmentStats) float64 { return r.Breakdown.Share(cause) }
		if max(of(a.Row), of(b.Row)) >= least {
			share("lost to "+cause.String(), of)
		}
	}
	return rows
}

// epochs returns the row of the epoch times; nil where one is not known, or their lengths differ by more than a batch may.
func (c *Comparison) epochs() []string {
	a, b := float64(c.Sides[0].s.EpochSamples()), float64(c.Sides[1].s.EpochSamples())
	if math.Abs(a-b) > stats.DefaultMargin*max(a, b) {
		return nil
	}
	var times [2]epochTime
	for i, d := range c.Sides {
		if times[i] = d.epochOf(slices.IndexFunc(d.rows, func(r attribution.SegmentStats) bool { return r.Segment.Index == d.Row.Segment.Index })); times[i].best() == 0 {
			return nil
		}
	}
	var t *turns
	if c.Turns[0] > 0 {
		t = &turns{rates: c.Turns, gain: &c.Throughput, samples: c.Sides[1].s.EpochSamples()}
	}
	return epochRow(times, &c.Throughput, t)
}

// compareGPUs returns the rows of what two traces tell of their busiest GPUs.
func compareGPUs(p, q *trace.Profile) (rows [][]string) {
	g, h := p.Busiest(), q.Busiest()
	add := func(name string, x, y float64) {
		rows = append(rows, []string{name, units.Prose.Percent(x), units.Prose.Percent(y), units.Points(y - x)})
	}
	add(gpuUtilisation, g.Utilisation, h.Utilisation)
	if g.Efficiency != nil && h.Efficiency != nil {
		add(smEfficiency, *g.Efficiency, *h.Efficiency)
	}
	if g.Occupancy != nil && h.Occupancy != nil {
		add(occupancy, *g.Occupancy, *h.Occupancy)
	}
	add(idleHost, p.ShareOf(g.Idle.Host), q.ShareOf(h.Idle.Host))
	add(idleKernel, p.ShareOf(g.Idle.Kernel), q.ShareOf(h.Idle.Kernel))
	add(idleCall, p.ShareOf(g.Idle.Call), q.ShareOf(h.Idle.Call))
	add(idleOther, p.ShareOf(g.Idle.Other), q.ShareOf(h.Idle.Other))
	return rows
}
