package report

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// front is the first page: the headline, and the measurements of before and after.
type front struct{ *account }

func (f *front) write(d *markup.Document) {
	d.Heading(1, "gpustall report: "+setup(&f.s.Meta))
	d.Para("**%s.**", markup.Sentence(f.headline()))
	if words := advice.Words(f.advice.Labels); words != "" {
		d.Para("Note: %s. See the caveats.", words)
	}
	if f.measured() && f.s.Meta.Imported == "" { // the headline of an imported session says it
		is, text := ": ", f.judged(f.first)
		if class, _, found := strings.Cut(text, ": "); found && class != advice.NotEnoughSteps {
			is = " is "
		}
		d.Para("Segment %s%s%s.", f.rows[f.first].Name(), is, text)
	}
	switch {
	case !f.measured():
	case f.last == f.first:
		f.single(d)
	default:
		newSides(f.account).write(d, f.headline(), f.baseline())
	}
}

// headline names the best configuration that was measured, or says why there is none.
func (f *front) headline() string {
	switch {
	case !f.measured():
		return "no training step was finished, so there is nothing to account for"
	case f.advice.Keep.Text != "":
		return f.advice.Keep.Text
	case f.advice.Verdict.Class == advice.NotEnoughSteps:
		return "too few steps for a verdict; run it longer"
	}
	if f.s.Meta.Imported != "" {
		return f.advice.Verdict.Text
	}
	headline := "nothing was changed; the run is " + f.advice.Verdict.Class
	if f.own {
		headline = fmt.Sprintf("nothing but the script changed its settings; the run is %s in segment %s", f.advice.Verdict.Class, f.rows[f.last].Name())
	}
	if of := f.advice.Verdict.Epochs; of != "" {
		headline += " in " + of
	}
	return headline
}

// single writes the measurements of a run with one row to show.
func (f *front) single(d *markup.Document) {
	if next, _ := f.advice.Next(); next != "" {
		d.Para("**Next: %s.**", next)
	}
	more, name := "", f.rows[f.first].Name()
	if len(f.rows) > 1 && f.first == 0 {
		more = fmt.Sprintf("; no other settings ran for %d steady steps", advice.MinSteps)
	}
	d.Para("Segment %s is %s%s.", name, f.baseline(), more)
	d.Table(append([][]string{{"measurement", ">" + name}}, f.column(f.first)...))
	if of := f.advice.Verdict.Epochs; of != "" {
		d.Para("These numbers are of all epochs; verdict and advice are on %s.", of)
	}
	footnote(d, &f.s.Meta)
}

// baseline says which segment A is.
func (f *front) baseline() string {
	if f.own {
		return fmt.Sprintf("the last in which the script kept its settings for long: %s of %s", units.Count(f.tally(f.first).All.Steps), units.Counted(f.s.Total.Steps, "step", "steps"))
	}
	if f.first > 0 {
		return fmt.Sprintf("the baseline that was chosen, segment #%d by its number", f.rows[f.first].Segment.Index)
	}
	if f.s.Meta.Imported != "" {
		return "the trace, whose settings are not recorded"
	}
	return "the baseline, with the settings that the run started with"
}
