package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/advice"
	"dev.gpustall/engine/document"
	"dev.gpustall/engine/evidence"
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/sweep"
	"dev.gpustall/engine/trace"
)

// ends are the baseline and everything that was kept, measured in one stage; without the
// latter where nothing was kept, or it was not measured yet.
func (l *Lab) ends() (s *Stage, base, best *sweep.Result) {
	for _, k := range []Kind{Ladder, Validation} {
		if s = l.stage(k); s != nil && s.Results != nil {
			if best = s.row(len(s.Results.Rows) - 1); best != nil && s.row(0) != nil {
				return s, s.row(0), best
			}
		}
	}
	s = l.stage(Baseline)
	return s, s.row(0), nil
}

// kept are the optimizations that were.
func (l *Lab) kept() (all []*Optimization) {
	for _, o := range l.Tried {
		if o.Kept {
			all = append(all, o)
		}
	}
	return all
}

// Labels are what must be known of the numbers of any run.
func (l *Lab) Labels() (all []advice.Label) {
	for _, s := range l.Stages {
		if s.Results == nil {
			continue
		}
		for _, n := range s.Results.Labels() {
			if !slices.ContainsFunc(all, func(o advice.Label) bool { return o.Key == n.Key }) {
				all = append(all, n)
			}
		}
	}
	return all
}

// first is the first run that ended; nil when there is none.
func (l *Lab) first() *sweep.Measured {
	for _, k := range []Kind{Baseline, Probe} {
		if r := l.stage(k).row(0); r != nil {
			return r.First()
		}
	}
	return nil
}

// subject is what was trained on what.
func (l *Lab) subject() string {
	if m := l.first(); m != nil {
		return m.Meta.Model + " on " + m.Meta.Device
	}
	return "nothing was measured yet"
}

// done reports whether the lab came to its end.
func (l *Lab) done() bool {
	s := l.stage(Ladder)
	return s != nil && (s.Skipped != "" || s.Results != nil && s.Results.Done() == len(s.Results.Plan.Order()))
}

// Headline is what came of it, in one sentence.
func (l *Lab) Headline() string {
	s, base, best := l.ends()
	n := len(l.kept())
	switch {
	case base == nil:
		return "the baseline was not measured yet"
	case best == nil && l.done():
		return "nothing that was tried is faster than the baseline for sure"
	case best == nil && n == 0:
		return "nothing was kept so far"
	case best == nil:
		return fmt.Sprintf("%s kept so far, and not measured together yet", figures.Counted(n, "optimization was", "optimizations were"))
	}
	rates := figures.Rate(base.Rate.Value) + " -> " + figures.Rate(best.Rate.Value) + " samples/s"
	text := fmt.Sprintf("with %s: throughput %v against the baseline, %s", figures.Counted(n, "optimization", "optimizations"), &best.Against.Throughput, rates)
	if !better(&best.Against.Throughput) {
		text = fmt.Sprintf("%s kept, but what is gained together is not confirmed: throughput %v; %s", figures.Counted(n, "optimization was", "optimizations were"), &best.Against.Throughput, rates)
	}
	if s.Kind != Ladder {
		text += "; the optimizations of the device are not among them yet"
	}
	return text
}

// Document is the report. Its pictures lie beside it.
func (l *Lab) Document() *document.Document {
	d := &document.Document{}
	d.Heading(1, "gpustall lab: "+sweep.Text(l.subject()))
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

func (l *Lab) summary(d *document.Document) {
	d.Para("**%s.**", sweep.Text(sentence(l.Headline())))
	if words := advice.Words(l.Labels()); words != "" {
		d.Para("Note: %s. See the caveats.", sweep.Text(words))
	}
	if !l.done() {
		d.Para("**This report is partial**: the lab was stopped after %s; --resume goes on with it.", figures.Counted(l.ended(), "run", "runs"))
	}
	d.Heading(2, "Executive summary")
	_, base, best := l.ends()
	if base == nil {
		d.Para("Nothing was measured yet.")
		return
	}
	d.Table(sides(base, best))
	kept, here := l.kept(), 0
	for _, o := range l.Tried {
		if o.row() != nil {
			here++
		}
	}
	d.Line("- %s, %s kept.", sentence(figures.Counted(here, "optimization was measured", "optimizations were measured")), figures.Count(len(kept)))
	for _, o := range kept {
		d.Line("  - %s: %s impact, throughput %s.", sweep.Text(o.Name), o.Impact(), o.change())
	}
	if n := len(l.Tried) - here; n > 0 {
		d.Line("- %s not possible or without effect here; the table says why.", sentence(figures.Counted(n, "more is", "more are")))
	}
	d.Line("- Total time: %s for %s.", figures.Prose.Time(int64(l.Spent)), figures.Counted(l.ended(), "run", "runs"))
	d.Line("")
}

// sentence begins with a capital.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// ended is how many runs have.
func (l *Lab) ended() (n int) {
	for _, s := range l.Stages {
		if s.Results != nil {
			n += s.Results.Done()
		}
	}
	return n
}

// sides sets two results side by side; b may be nil.
func sides(a, b *sweep.Result) [][]string {
	rows := [][]string{{"measurement", ">baseline"}}
	if b != nil {
		rows[0] = append(rows[0], ">optimized", ">change")
	}
	add := func(name string, of func(*sweep.Result) string, change string) {
		row := []string{name, of(a)}
		if b != nil {
			row = append(row, of(b), change)
		}
		rows = append(rows, row)
	}
	var rate, epoch, wait, memory string
	if b != nil {
		c := &b.Against.Throughput
		rate, epoch = c.String(), reduction(c)
		wait = figures.Points(b.Stats.DataShare() - a.Stats.DataShare())
		memory = less(a.Memory, b.Memory)
	}
	add("throughput (samples/s)", func(r *sweep.Result) string { return figures.Rate(r.Rate.Value) }, rate)
	add("time of an epoch", func(r *sweep.Result) string { return figures.Prose.Time(r.PerEpoch(r.Stats.Active())) }, epoch)
	add("step, median", func(r *sweep.Result) string { return figures.Prose.Time(r.P50) }, "")
	add("step, 95 of 100 below", func(r *sweep.Result) string { return figures.Prose.Time(r.P95) }, "")
	add("device utilization", func(r *sweep.Result) string { return figures.Prose.Percent(r.Stats.Utilisation()) }, "")
	add("wait for data", func(r *sweep.Result) string { return figures.Prose.Percent(r.Stats.DataShare()) }, wait)
	add("device memory", func(r *sweep.Result) string { return held(r.Memory) }, memory)
	return rows
}

// speedUp is a change of throughput as a factor. What is not known for sure is that of the
// rates, without an interval.
func speedUp(c *evidence.Change, a, b *sweep.Result) string {
	if c.Answer == evidence.Unknown {
		return figures.Prose.Ratio(figures.Rough(b.Rate.Value / a.Rate.Value))
	}
	return sweep.SpeedUp(c, false)
}

// reduction is by how much the time of a sample falls, with its interval, where the
// evidence says that it does.
func reduction(c *evidence.Change) string {
	if c.Answer != evidence.Different {
		return c.String()
	}
	less := func(ratio float64) float64 { return 1 - 1/ratio }
	e := figures.Estimate{Value: less(c.Ratio), Lo: less(c.Lo), Hi: less(c.Hi)}
	return fmt.Sprintf("%s less (%s)", figures.Prose.PercentOf(e), figures.Prose.PercentRange(e))
}

func held(n int64) string {
	if n <= 0 {
		return "-"
	}
	return figures.Prose.Bytes(n)
}

// less is by how much memory falls or grows.
func less(before, after int64) string {
	switch s := saved(before, after); {
	case before <= 0 || after <= 0:
		return "-"
	case math.Abs(s) < 0.0005:
		return "the same"
	case s < 0:
		return figures.Prose.Percent(-s) + " more"
	default:
		return figures.Prose.Percent(s) + " less"
	}
}

// bottlenecks says what held the baseline up, and by what that is known.
func (l *Lab) bottlenecks(d *document.Document) {
	d.Heading(2, "Bottlenecks identified")
	if l.Injected != "" {
		_, highly := advice.Thresholds()
		d.Para("The loader kept up with the device (under %s of the time were lost to data), so there was nothing to mend. To have something, **each read takes %s longer, on purpose**: what follows shows how a bottleneck is found and mended, and says nothing about this machine's storage. --as-is, --data or --inject none leave it be.",
			figures.Prose.Percent(highly), l.Injected)
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
	m := r.First()
	d.Line("- Verdict: %s.", sweep.Text(m.Verdict.Text))
	d.Line("- Where the time went: computing %s.", figures.Prose.Percent(r.Stats.Utilisation()))
	var causes []trace.Cause
	for i := range trace.NumCauses {
		if c := trace.Cause(i); r.Stats.Share(c) >= 0.001 {
			causes = append(causes, c)
		}
	}
	slices.SortStableFunc(causes, func(a, b trace.Cause) int { return cmp.Compare(r.Stats.Stall[b], r.Stats.Stall[a]) })
	for _, c := range causes {
		d.Line("  - %s %s: %s.", c, figures.Prose.Percent(r.Stats.Share(c)), c.Info().Means)
	}
	d.Line("")
	if len(m.Findings) > 0 {
		d.Para("What the advisor made of it, in its order:")
	}
	for i := range m.Findings {
		f := &m.Findings[i]
		d.Line("- %s.", sweep.Text(f.Text()))
	}
	for i := range m.Asides {
		d.Line("- To know: %s.", sweep.Text(m.Asides[i].Evidence))
	}
	d.Line("")
}

// optimizations lists what was tried.
func (l *Lab) optimizations(d *document.Document) {
	d.Heading(2, "Optimizations applied")
	if len(l.Tried) == 0 {
		d.Para("Nothing was tried%s.", map[bool]string{true: ": the advisor had no knob to turn", false: " yet"}[l.done()])
		return
	}
	rows := [][]string{{"optimization", "impact", ">samples/s", ">throughput", ">memory", "kept"}}
	for _, o := range l.Tried {
		kept := "no"
		if o.Kept {
			kept = "yes"
		}
		cells := []string{sweep.Text(o.Name), o.Impact(), "-", "-", "-", kept}
		if a, b := o.before(), o.row(); a != nil && b != nil {
			cells[2], cells[3], cells[4] = figures.Rate(b.Rate.Value), speedUp(o.change(), a, b), held(b.Memory)
		}
		rows = append(rows, cells)
	}
	d.Table(rows)
	d.Para("%s Each was measured against the settings kept until then, %s each, in turns. x is how many times as fast, with its 95 %% interval; ~ marks one that is not known for sure. What is there to save memory is not kept by itself: whether the memory is needed is yours to know.",
		impacts(), figures.Counted(l.Repeat, "run", "runs"))
	for _, o := range l.Tried {
		d.Line("- **%s**: %s.", sweep.Text(o.Name), sweep.Text(o.Outcome()))
		if a, b := o.before(), o.row(); a != nil && b != nil {
			d.Line("  - Before and after: %s -> %s samples/s, the device waits for data %s -> %s of the time and holds %s.", figures.Rate(a.Rate.Value), figures.Rate(b.Rate.Value),
				figures.Prose.Percent(a.Stats.DataShare()), figures.Prose.Percent(b.Stats.DataShare()), sizes(o.memory()))
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

// picture refers to one that is written beside the report.
func (l *Lab) picture(d *document.Document, name string) {
	for _, p := range l.Pictures() {
		if p.File == name {
			d.Picture(document.Picture{Title: sweep.Text(p.Sheet.Title), File: name})
		}
	}
}

// validation says what is left of it all when it is measured anew.
func (l *Lab) validation(d *document.Document) {
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
		d.Para("Baseline and fixes were measured anew, %s of %s each in turns: %s.", figures.Counted(l.Repeat, "run", "runs"), l.length(), found)
		d.Table(sides(a, b))
	}
	if s = l.stage(Ladder); s == nil || s.Results == nil {
		return
	}
	d.Para("Everything that was kept, each on top of those before it, measured anew:")
	rows := [][]string{{"rung", ">samples/s", ">cumulative", ">this rung", ">epoch", ">memory"}}
	for i := range s.Results.Rows {
		cells := []string{sweep.Text(s.Results.Rows[i].Name), "-", "-", "-", "-", "-"}
		if r := s.row(i); r != nil {
			cells = append(cells[:1], figures.Rate(r.Rate.Value), sweep.SpeedUp(&r.Against.Throughput, i == 0), sweep.SpeedUp(&r.Added.Throughput, i == 0), figures.Prose.Time(r.PerEpoch(r.Stats.Active())), held(r.Memory))
		}
		rows = append(rows, cells)
	}
	d.Table(rows)
	l.picture(d, dashboardFile)
}

// length is what the long runs are, in words.
func (l *Lab) length() string {
	steps := figures.Counted(l.Long, "step", "steps")
	if l.Epochs > 0 {
		return fmt.Sprintf("%s (%s)", figures.Counted(l.Epochs, "epoch", "epochs"), steps)
	}
	return steps
}

// deviceParts are precision, accumulation, checkpointing and capture.
func (l *Lab) deviceParts(d *document.Document) {
	for _, part := range []struct {
		kind        Kind
		title, file string
	}{{Precision, "Precision", ampFile}, {Accumulation, "Gradient accumulation", accumulationFile}, {Checkpointing, "Checkpointing", checkpointingFile}, {Capture, "Capture", compileFile}} {
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
			d.Para("Batches of an optimizer step x samples of each: the step is on the same samples, and fewer of them are on the device at a time.")
		}
		rows := [][]string{{strings.ToLower(part.title), ">samples/s", ">throughput", ">step p50", ">memory", ">saved", ">loss"}}
		for i := range s.Results.Rows {
			cells := []string{sweep.Text(strings.TrimPrefix(s.Results.Rows[i].Name, string(part.kind)+"=")), "-", "-", "-", "-", "-", "-"}
			if r := s.row(i); r != nil {
				cells = append(cells[:1], figures.Rate(r.Rate.Value), "-", figures.Prose.Time(r.P50), held(r.Memory), "-", "-")
				if a := s.row(0); i > 0 && a != nil {
					cells[2] = speedUp(&r.Against.Throughput, a, r)
					cells[5] = less(a.Memory, r.Memory)
				}
				if m := r.First(); !math.IsNaN(m.Loss) {
					cells[6] = figures.Loss(m.Loss)
				}
			}
			rows = append(rows, cells)
		}
		d.Table(rows)
		for i := range s.Results.Rows {
			if r := &s.Results.Rows[i]; !r.Measured() {
				d.Line("- %s has no numbers: %s.", sweep.Text(r.Name), sweep.Text(r.Why()))
			}
		}
		d.Line("")
		l.picture(d, part.file)
	}
}

// final are the settings that the lab ends with, as a run shows them; empty before the
// baseline is measured.
func (l *Lab) final() []trace.Knob {
	r := l.stage(Baseline).row(0)
	if r == nil {
		return nil
	}
	knobs := with(r.First().Segment.Knobs, l.now...)
	return slices.DeleteFunc(knobs, trace.Knob.IsInject)
}

func (l *Lab) recommendations(d *document.Document) {
	d.Heading(2, "Production recommendations")
	knobs := l.final()
	if knobs == nil {
		d.Para("None yet.")
		return
	}
	if len(l.now) == 0 {
		d.Line("- Keep the settings as they are: nothing was faster for sure.")
	} else {
		d.Line("- Use these settings. As flags of gpustall, beside those of the baseline:")
		d.Fenced(report.Flags(l.now))
	}
	if _, _, best := l.ends(); best != nil && !better(&best.Against.Throughput) {
		d.Line("- But their gain together is not confirmed: throughput %v. Measure longer before you rely on it.", &best.Against.Throughput)
	}
	line, beside := report.DataLoader(knobs, l.now)
	d.Line("- In PyTorch:")
	d.Fenced(line)
	if beside != "" {
		d.Line("- No argument of a DataLoader: %s; the script has them.", beside)
	}
	d.Line("- A whole training with them: `%s`.", ScriptFile)
	if o := l.thriftiest(); o != nil {
		d.Line("- If memory is short: %s (%s). If it is not, leave it out.", sweep.Text(o.Name), sweep.Text(o.Outcome()))
	}
	for _, text := range l.Left {
		d.Line("- Consider: %s.", sweep.Text(text))
	}
	if m := l.latest(); m != nil && len(l.kept()) > 0 {
		d.Line("- What holds it up now: %s.", sweep.Text(m.Verdict.Text))
		if m.Hint != "" {
			d.Line("- Next: %s.", sweep.Text(m.Hint))
		}
	}
	for _, n := range l.Labels() {
		switch n.Key {
		case "emulated":
			d.Line("- The device is emulated: measure again on the real one before you rely on any of this.")
		case "synthetic":
			d.Line("- The data is synthetic: measure again with your own (--data) before you rely on any of this.")
		case "injected":
			d.Line("- A slowness is injected: the loader's settings above are those that mend it, and may not be those that your storage needs.")
		}
	}
	d.Line("")
}

// thriftiest is the measured optimization that saves most memory; nil when none does.
func (l *Lab) thriftiest() (best *Optimization) {
	most := 0.0
	for _, o := range l.Tried {
		if s := saved(o.memory()); o.For == Memory && s > most {
			best, most = o, s
		}
	}
	return best
}

// lessons are what the measurements show beyond their numbers.
func (l *Lab) lessons(d *document.Document) {
	d.Heading(2, "Lessons")
	base := l.first()
	if base == nil {
		d.Para("None yet.")
		return
	}
	kept := l.kept()
	if len(kept) > 0 {
		top := slices.MaxFunc(kept, func(a, b *Optimization) int {
			if a.change().Lo < b.change().Lo {
				return -1
			}
			return 1
		})
		d.Line("- What helped most, by what it gains at the least: %s, throughput %s.", sweep.Text(top.Name), top.change())
	}
	if now := l.latest(); now != nil && now.Verdict.Class != base.Verdict.Class {
		d.Line("- The bottleneck moved: it was %s and is %s now, so the same changes would do something else now.", base.Verdict.Class, now.Verdict.Class)
	} else if len(kept) > 0 {
		d.Line("- The bottleneck is of the same kind as before: %s.", base.Verdict.Class)
	}
	var nothing, unknown []string
	for _, o := range l.Tried {
		switch {
		case o.row() == nil || o.For == Memory:
		case o.change().Answer == evidence.Unknown:
			unknown = append(unknown, o.Name)
		case !better(o.change()):
			nothing = append(nothing, o.Name)
		}
	}
	if len(nothing) > 0 {
		d.Line("- Did not help, for sure, and was not kept: %s.", sweep.Text(strings.Join(nothing, ", ")))
	}
	if len(unknown) > 0 {
		d.Line("- Not known: %s. Longer runs (--steps) or more of them (--repeat) tell.", sweep.Text(strings.Join(unknown, ", ")))
	}
	for _, k := range []Kind{Accumulation, Checkpointing} {
		for _, o := range l.Tried {
			if o.Stage.Kind == k && o.row() != nil && better(o.change()) {
				d.Line("- %s is faster too, which is not what it is there for: look at why before you use it.", sentence(sweep.Text(o.Name)))
			}
		}
	}
	d.Line("- One change at a time, each against what went before, and everything once more in the end: a gain that was found by picking is partly luck, and the last measurement is the one to quote.")
	d.Line("")
}

func (l *Lab) caveats(d *document.Document) {
	d.Heading(2, "Caveats")
	for _, n := range l.Labels() {
		d.Line("- [%s] %s.", sweep.Text(n.Words), sweep.Text(n.Sentence))
	}
	d.Line("- The first %s of each run do not count. Each run is a process of its own.", figures.Counted(l.Warmup, "step", "steps"))
	if l.Repeat == 1 {
		d.Line("- One run of each was made, and how much runs differ is in no interval: --repeat 3 measures it.")
	}
	d.Line("- This is one lab on one machine: nothing here speaks of others.")
	d.Line("")
}

func (l *Lab) environment(d *document.Document) {
	d.Heading(2, "Environment")
	m := l.first()
	if m == nil {
		return
	}
	add := func(name, value string) {
		if value != "" {
			d.Line("- %s: %s", sweep.Text(name), sweep.Text(value))
		}
	}
	add("device", m.Meta.Device)
	add("model", m.Meta.Model)
	add("data set", m.Meta.Dataset)
	add("gpustall", m.Meta.Version)
	for _, k := range m.Meta.Host {
		add(k.Name, k.Value)
	}
	d.Line("- baseline: %s", document.Code(report.Flags(l.base)))
	add("runs", fmt.Sprintf("baseline and validation of %s, the others of %s, %s of each configuration", l.length(), figures.Counted(l.Trial, "step", "steps"), figures.Counted(l.Repeat, "run", "runs")))
	d.Line("")
}
