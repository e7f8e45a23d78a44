package sweep

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Text makes a text from outside a line of a document. A ~ before a number stays as it is:
// it marks an estimate and strikes nothing out.
func Text(s string) string { return about.ReplaceAllString(markup.Text(units.Line(s)), "~$1") }

var about = regexp.MustCompile(`\\~([0-9x])`)

// Brief returns the short report: the answer and the tables.
func (r *Results) Brief() *markup.Document {
	d := &markup.Document{}
	d.Heading(1, "gpustall sweep: "+Text(r.subject()))
	d.Para("**%s.**", Text(r.Headline()))
	if words := advice.Words(r.Labels()); words != "" {
		d.Para("Note: %s. See the caveats.", Text(words))
	}
	for _, t := range r.Tables() {
		d.Table(t)
	}
	r.Unmeasured(d)
	d.Sentences(r.meaning()...)
	if why := r.Workers(); len(why) > 0 {
		d.Heading(2, "Which num_workers, and why")
		for _, line := range why {
			d.Line("- %s.", Text(line))
		}
		d.Line("")
	}
	return d
}

// Unmeasured lists the configurations that have no numbers, and why.
func (r *Results) Unmeasured(d *markup.Document) {
	none := false
	for i := range r.Rows {
		if row := &r.Rows[i]; !row.Measured() {
			d.Line("- %s has no numbers: %s.", Text(row.Name), Text(row.Why()))
			none = true
		}
	}
	if none {
		d.Line("")
	}
}

// Document returns the whole report with its pictures. Markdown refers to them by the names
// of their files, which lie beside it.
func (r *Results) Document() (*markup.Document, error) {
	d := r.Brief()
	d.Heading(2, "Pictures")
	for _, c := range r.Charts() {
		var b bytes.Buffer
		if err := c.PNG(&b); err != nil {
			return nil, err
		}
		d.Picture(markup.Picture{Title: Text(c.Title), File: c.Name + ".png", PNG: b.Bytes()})
	}
	d.Heading(2, "Verdicts")
	for i := range r.Rows {
		row := &r.Rows[i]
		if m := row.First(); m != nil {
			d.Line("- %s: %s.", Text(row.Name), Text(m.Verdict.Text))
			if m.Hint != "" {
				d.Line("  - Next: %s.", Text(m.Hint))
			}
		}
	}
	d.Line("")
	r.caveats(d)
	r.environment(d)
	return d, nil
}

// subject says what was trained on what, where that is the same in all runs.
func (r *Results) subject() string {
	return r.common("models", model) + " on " + r.common("devices", device)
}

func model(m *trace.Meta) string   { return m.Model }
func device(m *trace.Meta) string  { return m.Device }
func dataSet(m *trace.Meta) string { return m.Dataset }
func version(m *trace.Meta) string { return m.Version }
func machine(m *trace.Meta) string {
	return knob.ValueOf(m.Host, "cpu") + knob.ValueOf(m.Host, "kernel")
}

// different returns the different values that something has in the runs.
func (r *Results) different(of func(*trace.Meta) string) (all []string) {
	for i := range r.Rows {
		for _, m := range r.Rows[i].Runs {
			if m != nil && !slices.Contains(all, of(&m.Meta)) {
				all = append(all, of(&m.Meta))
			}
		}
	}
	return all
}

// common returns the value that all runs have, or how many different values there are.
func (r *Results) common(what string, of func(*trace.Meta) string) string {
	switch all := r.different(of); len(all) {
	case 0:
		return "no " + what
	case 1:
		return all[0]
	default:
		return fmt.Sprintf("%d %s", len(all), what)
	}
}

// Tables returns what was measured: throughput and its comparisons, then what an epoch and
// a step take, and what was learnt where the runs were of epochs.
func (r *Results) Tables() [][][]string {
	what := []string{">samples/s", ">95 % interval", ">against the first"}
	if r.Plan.Ladder { // more columns would not fit
		what = []string{">samples/s", ">cumulative", ">this rung"}
	}
	rates := [][]string{slices.Concat(r.heads(), what, []string{">util.", ">data"})}
	times := [][]string{append(r.heads(), ">epoch", ">load", ">a worker", ">compute", ">step p50", ">p95", ">memory", ">runs")}
	for i := range r.Rows {
		row, what := &r.Rows[i], r.what(i)
		if !row.Measured() {
			rates = append(rates, append(what, dashes(len(rates[0])-len(what))...))
			continue
		}
		cells, all := append(what, units.Rate(row.Rate.Value)), SpeedUp(&row.Against.Throughput, i == r.Base)
		if r.Plan.Ladder {
			cells = append(cells, all, SpeedUp(&row.Added.Throughput, row.before < 0))
		} else {
			cells = append(cells, interval(row.Rate, row.Done()), all)
		}
		rates = append(rates, append(cells, units.Prose.Percent(row.Stats.Utilisation()), units.Prose.Percent(row.Stats.DataShare())))
		times = append(times, append(r.what(i),
			row.EpochTime(row.Stats.Active()), row.EpochTime(row.Stats.Load),
			row.EpochTime(row.Stats.Load/int64(max(1, row.Workers))), row.EpochTime(row.Stats.Busy),
			units.Prose.Time(row.P50), units.Prose.Time(row.P95), Held(row.Memory),
			fmt.Sprintf("%d/%d", row.Done(), r.Plan.Repeat)))
	}
	if learnt := r.learnt(); learnt != nil {
		return [][][]string{rates, times, learnt}
	}
	return [][][]string{rates, times}
}

// learnt returns the table of what the first run of each configuration had learnt in the end;
// nil where the length of runs was given in steps.
func (r *Results) learnt() [][]string {
	if r.Plan.Epochs == 0 {
		return nil
	}
	rows := [][]string{append(r.heads(), ">epochs", ">loss", ">top-1", ">test loss", ">test top-1", ">training")}
	for i := range r.Rows {
		m := r.Rows[i].First()
		if m == nil || len(m.Learnt) == 0 {
			rows = append(rows, append(r.what(i), dashes(6)...))
			continue
		}
		last, took := m.Learnt[len(m.Learnt)-1], int64(0)
		for _, l := range m.Learnt {
			took += l.Took
		}
		cells := append(r.what(i),
			units.Count(len(m.Learnt)), units.Loss(last.Loss), units.Prose.Percent(last.Top1), "-", "-", units.Prose.Time(took))
		if n := len(cells); !math.IsNaN(last.TestLoss) {
			cells[n-3], cells[n-2] = units.Loss(last.TestLoss), units.Prose.Percent(last.TestTop1)
		}
		rows = append(rows, cells)
	}
	return rows
}

// heads returns the heads of the columns that tell the configurations apart: the settings
// that are varied, or the rungs.
func (r *Results) heads() []string {
	names := r.Plan.Names()
	if r.Plan.Ladder {
		return []string{"rung"}
	}
	if len(names) == 0 {
		return []string{"configuration"}
	}
	return slices.Clone(names)
}

// what returns a configuration's cells in those columns.
func (r *Results) what(i int) (cells []string) {
	names := r.Plan.Names()
	if r.Plan.Ladder || len(names) == 0 {
		return []string{Text(r.Rows[i].Name)}
	}
	for _, n := range names {
		cells = append(cells, Text(r.Plan.value(i, n)))
	}
	return cells
}

// Why says why a configuration has no numbers.
func (r *Result) Why() string {
	switch {
	case r.Refused != "":
		return "not possible here: " + r.Refused
	case r.Failed != "":
		return "failed: " + r.Failed
	}
	return "not measured yet"
}

// Held shows a number of bytes; "-" where it is not known.
func Held(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return units.Prose.Bytes(bytes)
}

func dashes(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "-"
	}
	return out
}

// interval shows the interval of a rate that so many runs have.
func interval(e units.Estimate, runs int) string {
	switch {
	case !(e.Lo <= e.Hi) && runs == 2:
		return "two runs tell none"
	case !(e.Lo <= e.Hi):
		return "-"
	}
	return units.Rate(e.Lo) + " to " + units.Rate(e.Hi)
}

// SpeedUp shows a change of throughput as a factor; "-" for the configuration that the
// others are compared with.
func SpeedUp(c *stats.Change, first bool) string {
	switch {
	case first, c.Ratio <= 0:
		return "-"
	case !c.Tells():
		return units.Prose.Ratio(units.Rough(c.Ratio))
	}
	return fmt.Sprintf("%s (%s)", units.Prose.Ratio(c.Estimate()), units.Prose.RatioRange(c.Estimate()))
}

// meaning explains the tables, in sentences.
func (r *Results) meaning() []string {
	p := r.Plan
	extent := units.Counted(p.Steps, "step", "steps") + ", after " + units.Count(p.Warmup) + " of warm-up that do not count"
	if p.Epochs > 0 {
		extent = p.extent() + ", whose rates leave out the first " + units.Counted(p.Warmup, "step", "steps")
	}
	runs := fmt.Sprintf("Each configuration has %s of %s, each in a process of its own", units.Counted(p.Repeat, "run", "runs"), extent)
	holds := "The intervals hold what varies within the run; " +
		"what differs from run to run (the page cache, neighbours, clock rates) is in the numbers and not in the intervals: --repeat 3 measures it."
	if p.Repeat > 1 {
		holds = "The intervals hold what varies within a run and from run to run."
		if p.Cluster {
			runs += ", as a task of a cluster, in its order and perhaps beside others"
		} else {
			runs += ", in turns"
		}
	}
	text := []string{runs + ".", holds}
	if p.Command != nil {
		text[0] = runs + ", which is interrupted then. Steps count from where the settings are in force."
	}
	if p.Epochs > 0 {
		text = append(text,
			"Loss and top-1 are means of the first run's last epoch, those of the test split were taken after it;",
			"training is all of its epochs, without evaluations.")
	}
	return append(text,
		"x is how many times as fast; ~ marks one without an interval.",
		"Epoch times follow from the rate.",
		"Load is what all workers together spend on an epoch's batches, a worker its share of that, compute what the device does.")
}

func (r *Results) caveats(d *markup.Document) {
	d.Heading(2, "Caveats")
	for _, l := range r.Labels() {
		d.Line("- [%s] %s.", Text(l.Words), Text(l.Sentence))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, idle := range row.Idle {
			d.Line("- %s: %s.", Text(row.Name), Text(idle))
		}
	}
	r.began(d)
	if best := r.Best(); best >= 0 && r.count() > 2 && best != r.Base {
		d.Line("- The fastest was picked among %s with the steps that picked it, so chance favours it: "+
			"measure it once more against the first to be sure of its gain.", units.Count(r.count()))
	}
	if len(r.different(version)) > 1 {
		d.Line("- The runs are not all of one gpustall: %s.", Text(strings.Join(r.different(version), ", ")))
	}
	if len(r.different(machine)) > 1 {
		d.Line("- The runs are not all of one machine.")
	}
	d.Line("- This is one sweep on one machine: nothing here speaks of others.")
	d.Line("")
}

// began says how much of the data was in memory when the runs began, in one line where that
// was the same for all.
func (r *Results) began(d *markup.Document) {
	states := r.different(func(m *trace.Meta) string {
		if m.Cached == nil {
			return ""
		}
		return m.Cached.State()
	})
	if len(states) == 1 {
		if m := r.Rows[r.Base].First(); m != nil && m.Meta.Cached != nil {
			d.Line("- All runs began %s. The first was %s.", states[0], Text(advice.Cached(m.Meta.Cached)))
		}
		return
	}
	var began []string
	for i := range r.Rows {
		if m := r.Rows[i].First(); m != nil && m.Meta.Cached != nil {
			began = append(began, r.Rows[i].Name+" "+advice.Cached(m.Meta.Cached))
		}
	}
	if len(began) > 0 {
		d.Line("- The runs did not begin alike: %s.", Text(strings.Join(began, "; ")))
	}
}

// environment writes what ran where.
func (r *Results) environment(d *markup.Document) {
	d.Heading(2, "Environment")
	add := func(name, value string) { d.Fact(Text(name), Text(value)) }
	add("device", strings.Join(r.different(device), "; "))
	add("model", strings.Join(r.different(model), "; "))
	add("data set", strings.Join(r.different(dataSet), "; "))
	add("gpustall", strings.Join(r.different(version), "; "))
	for i := range r.Rows {
		if m := r.Rows[i].First(); m != nil {
			for _, k := range m.Meta.Host {
				add(k.Name, k.Value)
			}
			break
		}
	}
	if r.Plan.Command != nil {
		add("command", strings.Join(r.Plan.Command, " "))
	}
	add("settings of all", title(r.Plan.Base))
	d.Line("")
}

// Write makes the folder's results: the table, the report as markdown and as a page, and
// the pictures. write is how a file is written.
func (r *Results) Write(f Folder, write func(path string, content func(io.Writer) error) error) error {
	if err := write(f.Path(ResultFile), r.CSV); err != nil {
		return err
	}
	d, err := r.Document()
	if err != nil {
		return err
	}
	for _, c := range r.Charts() {
		if err := write(f.Path(c.Name+".png"), c.PNG); err != nil {
			return err
		}
	}
	if err := write(f.Path(ReportFile), d.Markdown); err != nil {
		return err
	}
	return write(f.Path(PageFile), d.HTML)
}
