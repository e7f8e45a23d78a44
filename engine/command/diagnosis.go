package command

import (
	"io"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
)

// diagnosis returns the advice on a session: on the settings to keep, or on a segment that is
// named.
func diagnosis(name string, rate float64) (a advice.Advice, err error) {
	path, segment, err := splitSession(name)
	if err != nil {
		return a, err
	}
	session, err := openSession(path)
	if err != nil {
		return a, err
	}
	s := all(session)
	if rate > 0 {
		s.Meta.GPURate = rate
	}
	rows := attribution.Segments(s)
	if segment == "" {
		a, _ = advice.Overall(s, rows)
		return a, nil
	}
	row, names := attribution.Named(rows, segment)
	if row < 0 {
		return a, errs.New("diagnose", path, "it has no segment "+segment, "name one of "+strings.Join(names, ", "))
	}
	return advice.Of(s, s.Tally(rows[row].Segment.Index), rows), nil
}

// writeDiagnosis writes symptom, evidence, cause, remedy and gain of each finding, and then the
// remarks.
func writeDiagnosis(w io.Writer, a *advice.Advice) error {
	if err := cli.Say(w, "symptom  %s\n", a.Verdict.Text); err != nil {
		return err
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		if err := cli.Say(w, "\nfinding  %d of %d: %s\n", i+1, len(a.Findings), f.Rule); err != nil {
			return err
		}
		for _, line := range []struct{ label, text string }{
			{"evidence", f.Evidence}, {"cause", f.Cause}, {"remedy", f.Remedy}, {"gain", f.Gain()},
		} {
			if line.text == "" {
				continue
			}
			if err := cli.Say(w, "%-8s %s\n", line.label, line.text); err != nil {
				return err
			}
		}
	}
	if len(a.Findings) == 0 && a.Text() != "" {
		if err := cli.Say(w, "\nremedy   %s\n", a.Text()); err != nil {
			return err
		}
	}
	for i := range a.Lines {
		c := &a.Lines[i]
		if i == lines.Few || c.Lost < 0.05 {
			break
		}
		if err := cli.Say(w, "%sline     %s: %s of the time\n", map[bool]string{true: "\n"}[i == 0], c.Named(), units.Prose.Percent(c.Lost)); err != nil {
			return err
		}
	}
	for i := range a.Asides {
		if err := cli.Say(w, "\nremark   %s\n", a.Asides[i].Evidence); err != nil {
			return err
		}
	}
	return nil
}
