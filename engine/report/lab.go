package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Files of a lab, beside its pictures.
const (
	LabReport  = "optimization_report.md"
	LabPage    = "optimization_report.html"
	LabResults = "optimization_results.csv"
)

// Lab is the report that a course's lab asks for: the problem, the baseline, what was done and
// why, the validation, and how much less time an epoch takes. It is made of one session that was
// changed while it ran, or of two.
type Lab struct {
	sides    []*labSide // one or two
	compared *Comparison
}

// labSide is a session of a lab. Its account is of escaped texts.
type labSide struct {
	*account
	plain   *account
	session string
}

// NewLab makes a lab of a session, or of the sessions before and after.
func NewLab(sessions ...Side) (*Lab, error) {
	l := &Lab{}
	for i := range sessions {
		s := &sessions[i]
		p, _ := plain(s.Snapshot, Options{})
		e, o := escaped(s.Snapshot, Options{Session: s.Session})
		l.sides = append(l.sides, &labSide{account: newAccount(e), plain: newAccount(p), session: o.Session})
	}
	before, after := sessions[0], sessions[len(sessions)-1]
	if a := l.sides[0]; len(sessions) == 1 {
		if !a.measured() || a.last == a.first {
			return l, nil // there is nothing to compare
		}
		before.Segment, after.Segment = a.rows[a.first].Name(), a.rows[a.last].Name()
	}
	var err error
	l.compared, err = Compare(before, after)
	return l, err
}

// Write writes the files of the lab with write, which is given their names.
func (l *Lab) Write(write func(name string, content func(io.Writer) error) error) error {
	pictures, err := l.draw()
	if err != nil {
		return err
	}
	for _, p := range pictures {
		if err := write(p.File, func(w io.Writer) error { _, err := w.Write(p.PNG); return err }); err != nil {
			return err
		}
	}
	if err := write(LabResults, l.CSV); err != nil {
		return err
	}
	d := l.document(pictures)
	if err := write(LabPage, d.HTML); err != nil {
		return err
	}
	return write(LabReport, d.Markdown)
}

// draw draws the pictures of the sessions.
func (l *Lab) draw() (g gallery, err error) {
	for i, side := range l.sides {
		of, prefix := "", ""
		if len(l.sides) > 1 {
			of, prefix = []string{"before: ", "after: "}[i], []string{"before-", "after-"}[i]
		}
		for _, c := range (&charts{side.plain}).all() {
			var b bytes.Buffer
			if err := c.PNG(&b); err != nil {
				return nil, err
			}
			g = append(g, markup.Picture{Title: markup.Text(of + c.Title), File: prefix + c.Name + ".png", PNG: b.Bytes()})
		}
	}
	return g, nil
}

// document puts the lab's report together.
func (l *Lab) document(pictures gallery) *markup.Document {
	before, after := l.sides[0], l.sides[len(l.sides)-1]
	d := &markup.Document{}
	d.Heading(1, "Lab report: "+setup(&before.s.Meta))
	d.Para("**%s**", l.headline())
	if words := advice.Words(after.advice.Labels); words != "" {
		d.Para("Note: %s. See the caveats.", words)
	}
	if !before.measured() {
		d.Para("No training step was finished, so there is nothing to report.")
		return d
	}
	l.problem(d)
	l.baseline(d)
	l.strategy(d)
	l.validation(d)
	(&keep{after.account}).write(d)
	pictures.write(d)
	(&caveats{after.account}).write(d)
	if len(l.sides) > 1 {
		differ(d, "What else differs", l.compared.Environment, "None.")
	}
	(&environment{session: after.session, s: after.s}).write(d)
	return d
}

// headline returns the result in a sentence.
func (l *Lab) headline() string {
	if l.compared == nil {
		switch x := l.tried(); {
		case x != nil && x.Why == trace.RunEnded:
			return "Nothing was kept, so there is no result yet: " + x.Text() + "."
		case x != nil:
			return "Nothing was kept: " + x.Text() + "."
		}
		return "Nothing was changed, so there is no result yet."
	}
	said := l.compared.Headline() + " A is before, and B is after."
	if len(l.sides) == 1 {
		said = markup.Sentence((&front{l.sides[0].account}).headline()) + "."
	}
	if e := l.compared.epochs(); e != nil {
		said += fmt.Sprintf(" Epoch time: %s before, %s after, %s.", e[1], e[2], e[3])
	}
	return said
}

// tried returns the tune of which nothing was kept; nil where there was none.
func (l *Lab) tried() *attribution.Experiment {
	for i := range slices.Backward(l.sides[0].advice.Experiments) {
		if x := &l.sides[0].advice.Experiments[i]; x.Kind == trace.Tune && x.Tried() > 0 {
			return x
		}
	}
	return nil
}

// start returns the row of the baseline, and end returns the row to compare it with.
func (l *Lab) start() int {
	if len(l.sides) > 1 {
		return l.sides[0].kept
	}
	return l.sides[0].first
}

func (l *Lab) end() int {
	if len(l.sides) > 1 {
		return l.sides[1].kept
	}
	return l.sides[0].last
}

// problem says what held the device up at the start, and which lines of code that was.
func (l *Lab) problem(d *markup.Document) {
	a, row := l.sides[0].account, l.start()
	d.Heading(2, "The problem")
	d.Para("%s.", markup.Sentence(a.judged(row)))
	feed{a}.write(d)
	where{advice.Of(a.s, a.tally(row), a.rows[:row+1]).Lines, a.rows[row].Name()}.write(d)
}

// baseline shows what was measured at the start.
func (l *Lab) baseline(d *markup.Document) {
	a, row := l.sides[0].account, l.start()
	r := &a.rows[row]
	d.Heading(2, "The baseline")
	d.Para("The settings at the start: %s.", cmp.Or(knob.Join(r.Segment.Knobs, ", "), "not known"))
	d.Table(append([][]string{{"measurement", ">baseline"}}, a.column(row)...))
	rows := [][]string{{"time", ">share"}, {"computing", units.Prose.Percent(r.Utilisation)}}
	for cause := range trace.Cause(trace.NumCauses) {
		if share := r.Breakdown.Share(cause); share >= 0.001 && cause != trace.CausePaused {
			rows = append(rows, []string{"waiting: " + cause.String(), units.Prose.Percent(share)})
		}
	}
	d.Table(rows)
	footnote(d, &a.s.Meta)
	l.timeline(d, l.sides[0].account, row)
}

// timeline draws some steps of a row.
func (l *Lab) timeline(d *markup.Document, a *account, row int) {
	shown := &legend{glyphs: map[byte]bool{}}
	(&timeline{a}).draw(d, row, shown)
	if text := shown.String(); text != "" {
		d.Key("%s.", text)
	}
}

// strategy tells what was changed and why.
func (l *Lab) strategy(d *markup.Document) {
	d.Heading(2, "The strategy")
	before := l.sides[0]
	switch {
	case len(l.sides) == 1 && l.compared != nil:
		(&changes{before.account}).list(d)
		(&tunes{before.account}).write(d)
		return
	case l.compared == nil:
		if x := l.tried(); x != nil {
			(&tunes{before.account}).write(d)
			if x.Why == trace.RunEnded {
				d.Para("Let the training run longer, so that the tune can prove what it found.")
			}
		} else {
			d.Para("Nothing was changed. Change a knob on the screen while it trains, or let gpustall torch --tune find the settings; or name two sessions, before and after.")
		}
		if next := before.advice.Text(); next != "" {
			d.Para("%s.", markup.Sentence(next))
		}
		return
	}
	findings := advice.Of(before.s, before.tally(l.start()), before.rows[:l.start()+1]).Findings
	for _, s := range rewrite(l.compared.Settings, markup.Text) {
		d.Line("- **%s %s -> %s**", s.Name, s.A, s.B)
		why := "nothing measured asked for it"
		if i := slices.IndexFunc(findings, func(f advice.Finding) bool { return f.Knob == s.Name }); i >= 0 {
			why = findings[i].Evidence
		}
		d.Line("  - Why: %s.", why)
	}
	if len(l.compared.Settings) == 0 {
		d.Line("- The settings of the loader are the same in both sessions.")
	}
	d.Line("")
}

// validation sets before and after side by side.
func (l *Lab) validation(d *markup.Document) {
	d.Heading(2, "The validation")
	if l.compared == nil {
		d.Para("There is nothing to compare.")
		return
	}
	after := l.sides[len(l.sides)-1].account
	d.Para("A is before, and B is after, with %s.", cmp.Or(knob.Join(after.rows[l.end()].Segment.Knobs, ", "), "settings that are not known"))
	l.compared.measured(d)
	confidence(d, &l.compared.Comparison, l.sides[0].rows[l.start()].Excluded+after.rows[l.end()].Excluded)
	l.timeline(d, after, l.end())
	(&predictions{after}).write(d)
}

// CSV writes a row for each setting that was measured.
func (l *Lab) CSV(w io.Writer) error {
	c := markup.NewCSV(w)
	c.Row([]string{"session", "segment", "change", "steps", "samples_per_s", "device_utilization", "data_share", "step_p50_s", "step_p95_s",
		"epoch_s", "ratio", "ratio_low", "ratio_high", "answer", "kept", "knobs"})
	for _, side := range l.sides {
		a := side.plain
		for i := range a.rows {
			r := &a.rows[i]
			known := r.Steps > 0
			of := func(v float64) string { return number(known, markup.Number(v)) }
			row := []string{sessionName(side.session, &a.s.Meta), r.Name(), r.Segment.Reason, itoa(int64(r.Steps)),
				of(r.SamplesPerSecond), of(r.Utilisation), of(r.DataShare), number(known, exact(int64(r.P50))), number(known, exact(int64(r.P95))),
				number(a.epochOf(i).best() > 0, exact(a.epochOf(i).best()))}
			row = append(row, versus(a, i)...)
			c.Row(append(row, markup.YesNo(i == a.kept), knob.Join(r.Segment.Knobs, " ")))
		}
		for _, x := range a.advice.Experiments {
			for i := range x.Decisions {
				if d := &x.Decisions[i]; d.After.Steps > 0 && len(d.Knobs) > 0 {
					c.Row(triedRow(sessionName(side.session, &a.s.Meta), d))
				}
			}
		}
	}
	return c.End()
}

// triedRow is the row of settings that a tune tried. It is compared with the best settings until then.
func triedRow(session string, d *trace.Decision) []string {
	active := float64(d.After.Active)
	row := []string{session, fmt.Sprintf("#%d", d.Segment), "tune", itoa(d.After.Steps), markup.Number(float64(d.After.Samples) / active * 1e9),
		markup.Number(float64(d.After.Busy) / active), "", "", "", ""}
	of := func(v float64) string { return number(d.Ratio > 0, markup.Number(v)) }
	return append(row, of(d.Ratio), of(d.Lo), of(d.Hi), d.Answer, markup.YesNo(d.Verdict == trace.Confirmed), knob.Join(d.Knobs, " "))
}

// versus returns the ratio of a row to the baseline, its interval, and what that tells.
func versus(a *account, row int) []string {
	if row == a.first {
		return []string{"1", "", "", "baseline"}
	}
	c := &a.rows[row].VsA.Throughput
	known := c.Answer != stats.Unknown
	of := func(v float64) string { return number(known, markup.Number(v)) }
	e := c.Estimate()
	return []string{of(e.Value), of(e.Lo), of(e.Hi), c.Answer.String()}
}
