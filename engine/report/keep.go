package report

import (
	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// keep is the section that says which settings to keep, in the words of the command line
// and of PyTorch, and what to try next.
type keep struct{ *account }

func (k *keep) write(d *markup.Document) {
	d.Heading(2, "What to keep, and what next")
	defer d.Line("")
	if !k.measured() {
		d.Line("- Run it again until at least %d steps are finished.", advice.MinSteps)
		return
	}
	if k.s.Diverged > 0 {
		d.Line("- The training diverged at step %s: lower the learning rate before anything else.", units.Count(k.s.DivergedAt))
	}
	k.settings(d)
	a, segment := &k.advice, k.rows[k.kept].Name()
	if k.kept != k.first { // the first page tells the verdict on that
		d.Line("- With the settings to keep (segment %s): %s.", segment, a.Verdict.Text)
	}
	if text := a.Text(); text != "" {
		d.Line("- Next, from segment %s: %s.", segment, text)
	}
	if a.Ceiling.Text != "" {
		d.Line("- %s.", markup.Sentence(a.Ceiling.Text))
	}
	if a.Verdict.Class == advice.NotEnoughSteps {
		d.Line("- Next: run segment %s longer.", segment)
	}
	if a.Costly.Text != "" {
		d.Line("- %s.", markup.Sentence(a.Costly.Text))
	}
	for i := range a.Asides {
		d.Line("- To know: %s.", a.Asides[i].Evidence)
	}
}

// settings writes the settings to keep as flags and as arguments of a DataLoader.
func (k *keep) settings(d *markup.Document) {
	choice, segment := &k.advice.Keep, k.rows[k.kept].Name()
	knobs := k.rows[k.kept].Segment.Knobs
	flags := Flags(advice.Changed(k.rows[0].Segment.Knobs, knobs))
	switch {
	case choice.Open:
		d.Line("- Not decided: %s.", choice.Text)
	case choice.Text == "" && k.s.Meta.Imported == "":
		d.Line("- Nothing was compared, so there is no choice yet.")
	case choice.Text == "":
	case k.kept != 0 && k.s.Meta.Watched():
		d.Line("- Keep the settings of segment %s: %s.", segment, k.difference(0, k.kept))
	case flags != "":
		d.Line("- Keep the settings of segment %s. As flags, beside those of the run:", segment)
		d.Fenced(flags)
	case k.kept != 0:
		d.Line("- Keep the settings of segment %s, which need no flags beside those of the run.", segment)
	default:
		d.Line("- Keep the settings of segment %s, with which the run was started.", segment)
	}
	line, beside := DataLoader(k.s.Meta.Host, knobs, choice.Knobs)
	if line == "" {
		return
	}
	which := "These settings"
	if choice.Open {
		which = "The baseline's settings"
	}
	d.Line("- %s in PyTorch:", which)
	d.Fenced(line)
	if beside != "" {
		d.Line("- No argument of a DataLoader: %s.", beside)
	}
}
