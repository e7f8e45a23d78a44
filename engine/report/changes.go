package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// told is how many changes this section tells. Appendix C lists all of them.
const told = 8

// changes is the section that tells each change, why it was worth trying, and what
// followed.
type changes struct{ *account }

func (c *changes) write(d *markup.Document) {
	if !c.measured() {
		return
	}
	d.Heading(2, "What was changed, and why")
	if len(c.rows) == 1 && len(c.advice.Experiments) == 0 {
		d.Para("Nothing was changed.")
		return
	}
	c.list(d)
}

// list tells each change.
func (c *changes) list(d *markup.Document) {
	xs := c.advice.Experiments
	for i := 1; i < len(c.rows); i++ {
		if i > told {
			d.Line("- And %s more: see appendix C.", units.Counted(len(c.rows)-i, "change", "changes"))
			break
		}
		g := &c.rows[i].Segment
		for len(xs) > 0 && xs[0].First <= g.Index {
			experiment(d, &xs[0])
			xs = xs[1:]
		}
		d.Line("- **%s** (segment %s, %s after the start, before step %s)",
			cmp.Or(g.Reason, "a change without a name"), c.rows[i].Name(), units.Prose.Time(g.Start), units.Count(g.FirstStep))
		if !g.ByScript {
			d.Line("  - Why: %s.", c.why(i))
		}
		d.Line("  - Effect: %s.", c.effect(i))
	}
	for i := range xs {
		experiment(d, &xs[i])
	}
	d.Line("")
}

// experiment writes what the run was asked and what it answered.
func experiment(d *markup.Document, x *attribution.Experiment) {
	what := x.Changes()
	switch {
	case x.Kind == trace.Ceiling:
		what = "cached batches"
	case what == "":
		what = "the settings of the loader"
	}
	d.Line("- **%s: %s** (%s, %s after the start)", markup.Sentence(x.Name()), what, x.Segments(), units.Prose.Time(x.Start))
	d.Line("  - Asked: %s.", x.Asks())
	d.Line("  - Answer: %s.", x.Text())
	if x.Sides[1].Steps > 0 {
		d.Line("  - Measured: %s; %s; %s left out as transition.",
			sideText("at the start", x, 0), sideText("tried", x, 1), units.Counted(x.LeftOut, "step", "steps"))
	}
}

// sideText says what was measured of one side of an experiment.
func sideText(name string, x *attribution.Experiment, side int) string {
	s := &x.Sides[side]
	return fmt.Sprintf("%s %s/s at %s utilisation in %s",
		name, units.Rate(x.Rates()[side]), units.Prose.Percent(s.Utilisation()), units.Counted(s.Steps, "step", "steps"))
}

// judged returns the verdict on a row, with its longest wait where there is one.
func (a *account) judged(row int) string {
	t := a.tally(row)
	if t.All.Steps == 0 {
		return "no step was finished"
	}
	text := advice.Judge(a.s, t).Text
	if wait := a.longest(row); wait != "" {
		text += "; " + wait
	}
	return text
}

// why returns the reason for a change: what held the device up before it, and what the
// knob does about that.
func (c *changes) why(row int) string {
	before := &c.rows[row-1]
	for i := range c.advice.Experiments {
		if x := &c.advice.Experiments[i]; x.First > before.Segment.Index && x.Last == c.rows[row].Segment.Index-1 {
			return "what the " + x.Name() + " before it was left with"
		}
	}
	knobs := advice.Chosen(before.Segment.Knobs, c.rows[row].Segment.Knobs)
	if i := c.rows[row].Repeats; i >= 0 && i < row-1 {
		return "a return to the settings of segment " + c.rows[i].Name()
	}
	a := advice.Of(c.s, c.tally(row-1), c.rows[:row]) // without the rows that came later
	var reasons, unasked []string
	if row-1 != c.first { // the first page tells the verdict on that
		reasons = append(reasons, c.judged(row-1))
	}
	for _, k := range knobs {
		i := slices.IndexFunc(a.Findings, func(f advice.Finding) bool { return f.Knob == k.Name })
		switch help := help(c.s.Meta.Specs, k.Name); {
		case k.IsInject() && knob.Off(k.Value):
			reasons = append(reasons, "the injection was taken back")
		case k.IsInject():
			reasons = append(reasons, "a bottleneck was injected on purpose")
		case i >= 0:
			reasons = append(reasons, a.Findings[i].Evidence)
		case k.Name == "in_order" && knob.Off(k.Value) && strings.Contains(c.longest(row-1), headOfLine):
			reasons = append(reasons, "with in_order off a late batch no longer keeps those that are ready behind it waiting")
		case help != "":
			unasked = append(unasked, k.Name+" ("+help+")")
		default:
			unasked = append(unasked, k.Name)
		}
	}
	if len(unasked) > 0 {
		reasons = append(reasons, "nothing measured asked for "+strings.Join(unasked, ", "))
	}
	return cmp.Or(strings.Join(reasons, "; "), "nobody noted it")
}

// help returns the first words of the help on a knob that the session holds.
func help(specs []knob.Spec, name string) string {
	s := knob.SpecOf(specs, name)
	if s == nil {
		return ""
	}
	text, _, _ := strings.Cut(s.Help, ";")
	text, _, _ = strings.Cut(text, ":")
	return text
}

// longest names the longest wait for data of a row, with the worker that built the
// awaited batch; empty when the device never waited for long.
func (a *account) longest(row int) string {
	r, t := &a.rows[row], a.tally(row)
	w, found := attribution.LongestWait(a.s, t.From, t.To)
	if !found || r.DataShare < 0.01 || w.Time < t.Steady.Active()/(20*t.Steady.Steps) {
		return ""
	}
	text := fmt.Sprintf("its longest wait for data, %s before step %s, was for batch %s, on which %s spent %s, most of it on %s%s",
		units.Prose.Time(w.Time), units.Count(w.Step), units.Count(w.Batch),
		workerName(w.Worker), units.Prose.Time(w.Took), w.Kind, attribution.Waiting(w.Split))
	if w.Behind > 0 && knob.On(knob.ValueOf(r.Segment.Knobs, "in_order")) {
		text += fmt.Sprintf(", while %s behind it (%s: in_order delivers each batch in its turn)",
			units.Counted(w.Behind, "later batch lay ready", "later batches lay ready"), headOfLine)
	}
	return text
}

// headOfLine is the name for a late batch that holds up batches which are ready.
const headOfLine = "head-of-line blocking"

// workerName names a loader's lane in a sentence.
func workerName(t trace.TrackID) string {
	if t == trace.TrackInline {
		return "the step loop itself"
	}
	return "worker " + t.String()
}

// effect says what followed a change.
func (c *changes) effect(row int) string {
	a, r := &c.rows[row-1], &c.rows[row]
	switch {
	case c.tally(row).All.Steps == 0:
		return "none seen, no step was finished with it"
	case r.Steps == 0:
		return "not known, all its steps belong to the transition"
	}
	t := &r.VsBefore.Throughput
	text := fmt.Sprintf("throughput against the settings before %s", t)
	if by := r.VsBefore.ByTurns(); by != "" {
		text += ", by " + by
	}
	if t.Answer == stats.Unknown {
		text = fmt.Sprintf("the change of throughput is %s", t.Undecided())
	}
	if a.Steps > 0 {
		text += fmt.Sprintf("; utilisation %s -> %s, waiting for data %s -> %s",
			share(a, a.Utilisation), share(r, r.Utilisation), c.waits(a), c.waits(r))
	}
	told := row == c.last && row-1 == c.first // the first page tells this change
	if compute := c.computeText(a, r, &r.VsBefore); compute != "" && !told {
		text += "; " + compute
	}
	for _, more := range []string{advice.Unearned(c.s, a, r, &r.VsBefore), attribution.Repeated(c.rows, row)} {
		if more != "" {
			text += "; " + more
		}
	}
	for _, k := range advice.Changed(a.Segment.Knobs, r.Segment.Knobs) {
		if note := notes[k.Name]; note != "" {
			text += "; " + note
		}
	}
	return text
}

// notes warn of changes that do not compare like with like.
var notes = map[string]string{
	"ceiling": "with the ceiling on, cached batches are served: " +
		"it shows what would be gained if data were free, and trains on the same few batches",
	"batch_size": "another batch size is another training, so compare its loss too",
	"precision":  "another precision is another training, so compare its loss too",
}
