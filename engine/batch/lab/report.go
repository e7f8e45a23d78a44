package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Document returns the report. Its pictures lie beside it.
func (r *Record) Document() *markup.Document {
	d := &markup.Document{}
	l := &document{r}
	d.Heading(1, "gpustall lab: "+sweep.Text(r.subject()))
	l.summary(d)
	l.bottlenecks(d)
	l.optimizations(d)
	l.validation(d)
	l.deviceParts(d)
	l.recommendations(d)
	l.lessons(d)
	l.caveats(d)
	l.environment(d)
	return d
}

// document writes the sections of the report.
type document struct{ *Record }

func (l *document) summary(d *markup.Document) {
	d.Para("**%s.**", sweep.Text(markup.Sentence(l.Headline())))
	if words := advice.Words(l.Labels()); words != "" {
		d.Para("Note: %s. See the caveats.", sweep.Text(words))
	}
	if !l.done() {
		d.Para("**This report is partial**: the lab was stopped after %s; --resume goes on with it.", units.Counted(l.ended(), "run", "runs"))
	}
	d.Heading(2, "Executive summary")
	s, base, best := l.ends()
	if base == nil {
		d.Para("Nothing was measured yet.")
		return
	}
	d.Table(sides(base, best))
	if best != nil {
		d.Para("Both were measured anew, in turns, in the stage *%s*; what other stages measured of the same settings differs as the host did.",
			sweep.Text(s.Title))
	}
	kept, here := l.kept(), 0
	for _, o := range l.Tried {
		if o.row() != nil {
			here++
		}
	}
	d.Line("- %s, %s kept.", markup.Sentence(units.Counted(here, "optimization was measured", "optimizations were measured")), units.Count(len(kept)))
	for _, o := range kept {
		d.Line("  - %s: %s impact, throughput %s.", sweep.Text(o.Name), o.Impact(), o.change())
	}
	if n := len(l.Tried) - here; n > 0 {
		d.Line("- %s not possible or without effect here; the table says why.", markup.Sentence(units.Counted(n, "more is", "more are")))
	}
	d.Line("- Total time: %s for %s.", units.Prose.Time(int64(l.Spent)), units.Counted(l.ended(), "run", "runs"))
	d.Line("")
}

// bottlenecks says what held the baseline up, and what shows that.
func (l *document) bottlenecks(d *markup.Document) {
	d.Heading(2, "Bottlenecks identified")
	if l.Injected != "" {
		_, highly := advice.Thresholds()
		d.Sentences(
			fmt.Sprintf("The loader kept up with the device (under %s of the time were lost to data), so there was nothing to improve.", units.Prose.Percent(highly)),
			fmt.Sprintf("To have something, **each read takes %s longer, on purpose**:", units.Prose.Time(int64(l.slower()))),
			"what follows shows how a bottleneck is found and removed, and says nothing about this machine's storage.",
			"--as-is, --data or --inject none leave it be.")
		if m := l.stage(Probe).row(0); m != nil {
			d.Line("- Without it: %s.", sweep.Text(m.First().Verdict.Text))
		}
	}
	r := l.stage(Baseline).row(0)
	if r == nil {
		d.Para("The baseline was not measured yet.")
		return
	}
	if len(l.Slowed) > 0 {
		d.Line("- The baseline is slow on purpose: %s. --as-is begins with the settings as they are.", strings.Join(l.Slowed, ", "))
	}
	m, of, in := r.First(), "", ""
	if n := r.Done(); n > 1 { // a verdict is of one session
		of, in = fmt.Sprintf(" of the first of %s", units.Counted(n, "run", "runs")), " in all of them"
	}
	d.Line("- Verdict%s: %s.", of, sweep.Text(m.Verdict.Text))
	d.Line("- Where the time went%s: computing %s.", in, units.Prose.Percent(r.Stats.Utilisation()))
	var causes []trace.Cause
	for i := range trace.NumCauses {
		if c := trace.Cause(i); r.Stats.Share(c) >= 0.001 {
			causes = append(causes, c)
		}
	}
	slices.SortStableFunc(causes, func(a, b trace.Cause) int { return cmp.Compare(r.Stats.Stall[b], r.Stats.Stall[a]) })
	for _, c := range causes {
		d.Line("  - %s %s: %s.", c, units.Prose.Percent(r.Stats.Share(c)), c.Info().Means)
	}
	d.Line("")
	if len(m.Findings)+len(m.Asides) == 0 {
		return
	}
	d.Para("What the advisor made of it, in its order:")
	for i := range m.Findings {
		d.Line("- %s.", sweep.Text(m.Findings[i].Text()))
	}
	for i := range m.Asides {
		d.Line("- To know: %s.", sweep.Text(m.Asides[i].Evidence))
	}
	d.Line("")
}

// optimizations lists what was tried.
func (l *document) optimizations(d *markup.Document) {
	d.Heading(2, "Optimizations applied")
	if len(l.Tried) == 0 {
		d.Para("Nothing was tried%s.", map[bool]string{true: ": the advisor had no knob to turn", false: " yet"}[l.done()])
		return
	}
	rows := [][]string{{"optimization", "impact", ">samples/s", ">throughput", ">memory", "kept"}}
	for _, o := range l.Tried {
		cells := []string{l.title(o), o.Impact(), "-", "-", "-", markup.YesNo(o.Kept)}
		if a, b := o.before(), o.row(); a != nil && b != nil {
			cells[2], cells[3], cells[4] = units.Rate(b.Rate.Value), speedUp(o.change(), a, b), sweep.Held(b.Memory)
		}
		rows = append(rows, cells)
	}
	d.Table(rows)
	d.Sentences(append(impacts(),
		fmt.Sprintf("Each was measured against the settings kept until then, %s each, in turns.", units.Counted(l.Repeat, "run", "runs")),
		"x is how many times as fast, with its 95 % interval; ~ marks one that is not known for sure.",
		"What is there to save memory is not kept by itself: whether the memory is needed is yours to know.")...)
	for _, o := range l.Tried {
		d.Line("- **%s**: %s.", l.title(o), sweep.Text(o.Outcome()))
		if a, b := o.before(), o.row(); a != nil && b != nil {
			d.Line("  - Before and after: %s -> %s samples/s, the device waits for data %s -> %s of the time and holds %s.",
				units.Rate(a.Rate.Value), units.Rate(b.Rate.Value),
				units.Prose.Percent(a.Stats.DataShare()), units.Prose.Percent(b.Stats.DataShare()), sizes(o.memory()))
		}
		if o.Why != "" {
			d.Line("  - Why: %s.", sweep.Text(o.Why))
		}
		if o.Predicted != "" {
			d.Line("  - Before it was measured: %s.", sweep.Text(o.Predicted))
		}
	}
	for _, text := range l.Left {
		d.Line("- Not tried: %s.", sweep.Text(text))
	}
	d.Line("")
	l.picture(d, dataloaderFile)
	l.picture(d, workersFile)
	if s := l.stage(Workers); s != nil && s.Results != nil {
		for _, why := range s.Results.Workers() {
			d.Line("- %s.", sweep.Text(why))
		}
		d.Line("")
	}
}

// title returns an optimization's name, and says where one of that name was tried before.
func (l *document) title(o *Optimization) string {
	i := slices.IndexFunc(l.Tried, func(t *Optimization) bool { return t.Name == o.Name })
	if l.Tried[i] != o {
		return sweep.Text(o.Name) + ", again"
	}
	return sweep.Text(o.Name)
}

// picture refers to a picture that is written beside the report.
func (l *document) picture(d *markup.Document, name string) {
	for _, p := range l.Pictures() {
		if p.File == name {
			d.Picture(markup.Picture{Title: sweep.Text(p.Sheet.Title), File: name})
		}
	}
}

// validation says how much of the gain remains when it is measured anew.
func (l *document) validation(d *markup.Document) {
	d.Heading(2, "Validation")
	s := l.stage(Validation)
	switch a, b := s.row(0), s.row(1); {
	case s == nil:
		d.Para("It was not reached.")
	case s.Skipped != "":
		d.Para("There was nothing to validate: %s.", sweep.Text(s.Skipped))
	case a == nil || b == nil:
		d.Para("It did not come to its end.")
	default:
		found := "an epoch takes **" + reduction(&b.Against.Throughput) + "**"
		if !better(&b.Against.Throughput) {
			found = "**the gain is not confirmed**, throughput " + b.Against.Throughput.String()
		}
		d.Para("Baseline and fixes were measured anew, %s of %s each in turns: %s.", units.Counted(l.Repeat, "run", "runs"), l.length(), found)
		d.Table(sides(a, b))
	}
	if s = l.stage(Ladder); s == nil || s.Results == nil {
		return
	}
	d.Para("Everything that was kept, each on top of those before it, measured anew:")
	rows := [][]string{{"rung", ">samples/s", ">cumulative", ">this rung", ">memory"}}
	for i := range s.Results.Rows {
		cells := []string{sweep.Text(s.Results.Rows[i].Name), "-", "-", "-", "-"}
		if r := s.row(i); r != nil {
			cells = append(cells[:1], units.Rate(r.Rate.Value),
				sweep.SpeedUp(&r.Against.Throughput, i == 0), sweep.SpeedUp(&r.Added.Throughput, i == 0), sweep.Held(r.Memory))
		}
		rows = append(rows, cells)
	}
	d.Table(rows)
	l.picture(d, dashboardFile)
}

// length says how long the long runs are.
func (l *document) length() string {
	steps := units.Counted(l.Long, "step", "steps")
	if l.Epochs > 0 {
		return fmt.Sprintf("%s (%s)", units.Counted(l.Epochs, "epoch", "epochs"), steps)
	}
	return steps
}

// deviceParts writes the sections of precision, accumulation, checkpointing and capture.
func (l *document) deviceParts(d *markup.Document) {
	for _, part := range []struct {
		kind        Kind
		title, file string
	}{
		{Precision, "Precision", ampFile},
		{Accumulation, "Gradient accumulation", accumulationFile},
		{Checkpointing, "Checkpointing", checkpointingFile},
		{Capture, "Capture", compileFile},
	} {
		d.Heading(2, part.title)
		s := l.stage(part.kind)
		switch {
		case s == nil:
			d.Para("It was not reached.")
			continue
		case s.Results == nil:
			d.Para("Not possible, or without effect, here: %s.", sweep.Text(s.Skipped))
			l.picture(d, part.file)
			continue
		}
		if part.kind == Accumulation {
			d.Sentences(
				"Batches of an optimizer step x samples of each: the step is on the same samples, and fewer of them are on the device at a time.",
				"Each run has as many batches, so fewer samples and optimizer steps the more are accumulated: their losses do not compare.")
		}
		d.Table(comparison(s, part.title))
		s.Results.Unmeasured(d)
		l.picture(d, part.file)
	}
}

// comparison returns the table of a stage's configurations.
func comparison(s *Stage, title string) [][]string {
	rows := [][]string{{strings.ToLower(title), ">samples/s", ">throughput", ">step p50", ">memory", ">saved", ">loss"}}
	for i := range s.Results.Rows {
		name := strings.TrimPrefix(s.Results.Rows[i].Name, string(s.Kind)+"=")
		cells := []string{sweep.Text(name), "-", "-", "-", "-", "-", "-"}
		if r := s.row(i); r != nil {
			cells = append(cells[:1], units.Rate(r.Rate.Value), "-", units.Prose.Time(r.P50), sweep.Held(r.Memory), "-", "-")
			if a := s.row(0); i > 0 && a != nil {
				cells[2] = speedUp(&r.Against.Throughput, a, r)
				cells[5] = less(a.Memory, r.Memory)
			}
			if m := r.First(); !math.IsNaN(m.Loss) {
				cells[6] = units.Loss(m.Loss)
			}
		}
		rows = append(rows, cells)
	}
	return rows
}

func (l *document) caveats(d *markup.Document) {
	d.Heading(2, "Caveats")
	for _, n := range l.Labels() {
		d.Line("- [%s] %s.", sweep.Text(n.Words), sweep.Text(n.Sentence))
	}
	d.Line("- The first %s of each run do not count. Each run is a process of its own.", units.Counted(l.Warmup, "step", "steps"))
	if l.Repeat == 1 {
		d.Line("- One run of each was made, and how much runs differ is in no interval: --repeat 3 measures it.")
	}
	d.Line("- This is one lab on one machine: nothing here speaks of others.")
	d.Line("")
}

func (l *document) environment(d *markup.Document) {
	d.Heading(2, "Environment")
	m := l.first()
	if m == nil {
		return
	}
	add := func(name, value string) { d.Fact(sweep.Text(name), sweep.Text(value)) }
	add("device", m.Meta.Device)
	add("model", m.Meta.Model)
	add("data set", m.Meta.Dataset)
	add("gpustall", m.Meta.Version)
	for _, k := range m.Meta.Host {
		add(k.Name, k.Value)
	}
	d.Line("- baseline: %s", markup.Code(report.Flags(l.base)))
	add("runs", fmt.Sprintf("baseline and validation of %s, the others of %s, %s of each configuration",
		l.length(), units.Counted(l.Trial, "step", "steps"), units.Counted(l.Repeat, "run", "runs")))
	d.Line("")
}
