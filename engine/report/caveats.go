package report

import (
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// caveats is the section that says what a reader must know before using the numbers.
type caveats struct{ *account }

func (c *caveats) write(d *markup.Document) {
	d.Heading(2, "Caveats")
	for _, l := range c.advice.Labels {
		in := ""
		if len(l.Segments) > 0 {
			in = "in " + c.segmentNames(l.Segments) + ": "
		}
		d.Line("- [%s] %s%s.", l.Words, in, l.Sentence)
	}
	c.unlike(d)
	if dropped := advice.Dropped(c.s); dropped != "" {
		d.Line("- Dropped: %s.", dropped)
	}
	if c.s.Outcome.Status != "finished" && c.s.Outcome.Status != "stopped" {
		d.Line("- Outcome: %s", status(c.s))
	}
	much, _ := advice.Thresholds()
	// The total ends with the last step, because after it there is nothing to explain.
	if u := (attribution.Breakdown{Totals: c.s.Total}).Share(trace.CauseUnknown); u >= much && c.s.Total.Lost == 0 {
		d.Line("- %s of the time the device was idle for no recorded cause.", units.Prose.Percent(u))
	}
	if c.whole.Paused > 0 {
		c.paused(d)
	}
	if _, known := advice.PastOf(c.s); known {
		d.Line("- This is one session on one machine: nothing here speaks of other machines, and of earlier runs only the rate.")
	} else {
		d.Line("- This is one session on one machine: nothing here speaks of other runs or machines.")
	}
	c.logged(d)
	d.Line("")
}

// unlike warns if before and after differ in more than the loader's knobs.
func (c *caveats) unlike(d *markup.Document) {
	if c.last == c.first {
		return
	}
	changed := advice.Changed(c.rows[c.first].Segment.Knobs, c.rows[c.last].Segment.Knobs)
	if has(changed, knob.GroupInject) || c.flagged(c.first, trace.FlagInjected) != c.flagged(c.last, trace.FlagInjected) {
		d.Line("- The injected bottleneck is not the same before and after: what is compared is what the injection costs, not what tuning gains.")
	}
	if has(changed, "batch_size") {
		d.Line("- The batch size is not the same before and after: times are compared per sample, and the two trainings are not the same.")
	}
}

// paused says how long the training stood still, and why where that is known.
func (c *caveats) paused(d *markup.Document) {
	what, evaluated := "evaluations on the test split", int64(0)
	for _, e := range c.s.Evaluations() {
		evaluated += e.Took
	}
	if own, _ := c.s.Own(0, c.s.Now); own.Aside > 0 {
		what, evaluated = trace.AsideLoops, own.Aside
	}
	if evaluated == 0 {
		d.Line("- The run was paused for %s, which is in no number but this one.", units.Prose.Time(c.whole.Paused))
		return
	}
	if 20*evaluated >= 19*c.whole.Paused {
		d.Line("- %s took %s, which is in no rate and in no share.", markup.Sentence(what), units.Prose.Time(c.whole.Paused))
		return
	}
	d.Line("- Training stood still for %s, of which %s took %s: that is in no rate and in no share.",
		units.Prose.Time(c.whole.Paused), what, units.Prose.Time(evaluated))
}

// maxLogged is how many warnings and errors are listed.
const maxLogged = 20

// logged lists the warnings and errors that the run wrote down. Damage of the session
// has a label, so it is not listed again.
func (c *caveats) logged(d *markup.Document) {
	n := 0
	for _, note := range c.s.Notes {
		if note.Level != "warn" && note.Level != "error" || slices.Contains(c.s.Damage, note.Text) {
			continue
		}
		if n++; n <= maxLogged {
			d.Line("- Logged %s after the start (%s): %s", units.Prose.Time(note.T), note.Level, note.Text)
		}
	}
	if n > maxLogged {
		d.Line("- And %s.", units.Counted(n-maxLogged, "more warning or error", "more warnings and errors"))
	}
}
