package lab

import (
	"cmp"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/report/markup"
)

func (l *document) recommendations(d *markup.Document) {
	d.Heading(2, "Production recommendations")
	knobs := l.final()
	if knobs == nil {
		d.Para("None yet.")
		return
	}
	if len(l.now) == 0 {
		nothing := "faster for sure"
		if len(l.Tried) == 0 && !l.done() {
			nothing = "tried yet"
		}
		d.Line("- Keep the settings as they are: nothing was %s.", nothing)
	} else {
		d.Line("- Use these settings. As flags of gpustall, beside those of the baseline:")
		d.Fenced(report.Flags(l.now))
	}
	if _, _, best := l.ends(); best != nil && !better(&best.Against.Throughput) {
		d.Line("- But their gain together is not confirmed: throughput %v. Measure longer before you rely on it.", &best.Against.Throughput)
	}
	line, beside := report.DataLoader(nil, knobs, l.now)
	d.Line("- In PyTorch:")
	d.Fenced(line)
	if beside != "" {
		d.Line("- No argument of a DataLoader: %s; the script has precision, accumulation, checkpointing and capture.", beside)
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
			d.Line("- A slowness is injected: the loader's settings above are those that make up for it, and may not be those that your storage needs.")
		}
	}
	d.Line("")
}

// thriftiest returns the measured optimization that saves most memory; nil when none does.
func (l *document) thriftiest() (best *Optimization) {
	most := 0.0
	for _, o := range l.Tried {
		if s := saved(o.memory()); o.For == Memory && s > most {
			best, most = o, s
		}
	}
	return best
}

// lessons says what the measurements show beyond their numbers.
func (l *document) lessons(d *markup.Document) {
	d.Heading(2, "Lessons")
	base := l.first()
	if base == nil {
		d.Para("None yet.")
		return
	}
	kept := l.kept()
	if len(kept) > 0 {
		top := slices.MaxFunc(kept, func(a, b *Optimization) int { return cmp.Compare(a.change().Lo, b.change().Lo) })
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
		case o.row() == nil || o.For == Memory || slices.ContainsFunc(kept, func(k *Optimization) bool { return k.Name == o.Name }):
		case o.change().Answer == stats.Unknown:
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
				d.Line("- %s is faster too, which is not what it is there for: look at why before you use it.", markup.Sentence(sweep.Text(o.Name)))
			}
		}
	}
	d.Line("- One change at a time, each against what went before, and everything once more in the end: " +
		"a gain that was found by picking is partly luck, and the last measurement is the one to quote.")
	d.Line("")
}
