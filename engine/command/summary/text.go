package summary

import (
	"fmt"
	"math"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace"
)

// Text returns the summary for people.
func (s *Run) Text() string {
	var b strings.Builder
	s.writeHeading(&b)
	s.writeMeasured(&b)
	s.writeLearnt(&b)
	b.WriteByte('\n')
	s.writeJudgement(&b)
	s.writeExperiments(&b)
	s.writeRemarks(&b)
	return b.String()
}

// writeHeading says how the run ended and what it was.
func (s *Run) writeHeading(b *strings.Builder) {
	status := s.Status
	if s.imported { // a trace does not tell how the run ended
		status = "recorded"
	}
	fmt.Fprintf(b, "%s: %s on %s", status, units.Line(s.Model), units.Line(s.Device))
	if s.Dataset != "" {
		b.WriteString(", " + units.Line(s.Dataset))
	}
	b.WriteString(advice.Brackets(s.advice.Labels))
}

// writeMeasured says how many steps there were, and how fast they went.
func (s *Run) writeMeasured(b *strings.Builder) {
	switch {
	case s.Steps == 0:
		b.WriteString("\nno step ended, so nothing was measured")
	case s.imported: // nobody counted samples, and no loss is on record
		fmt.Fprintf(b, "\n%s in %s: device utilisation %s",
			units.Counted(s.Steps, "step", "steps"), units.Prose.Time(s.Wall.ns()), units.Prose.Percent(float64(s.DeviceUtilization)))
		if s.Profile != nil && len(s.Profile.GPUs) > 0 {
			b.WriteString("; " + s.Profile.text)
		}
	default:
		utilisation := units.Prose.Percent(float64(s.DeviceUtilization))
		if s.alone {
			utilisation = "at least " + utilisation
		}
		fmt.Fprintf(b, "\n%s, %s in %s: %s samples/s, device utilisation %s over all steps",
			units.Counted(s.Steps, "step", "steps"), units.Counted(s.Samples, "sample", "samples"), s.took(),
			units.Rate(float64(s.SamplesPerSecond)), utilisation)
		if !s.foreign {
			b.WriteString(", loss " + lossText(s.Loss, s.Top1))
		}
	}
}

// took says how long the steps took. It leaves out pauses if they are 5 % of the time or more,
// and says so.
func (s *Run) took() string {
	paused := s.Stalls[trace.CausePaused.String()].ns()
	if 20*paused < s.Wall.ns() {
		return units.Prose.Time(s.Wall.ns())
	}
	return fmt.Sprintf("%s, not counting %s of pauses and evaluations", units.Prose.Time(s.Wall.ns()-paused), units.Prose.Time(paused))
}

// writeLearnt says what the last epoch and its evaluation learnt.
func (s *Run) writeLearnt(b *strings.Builder) {
	n := len(s.EpochTimes)
	if s.Steps > 0 && !math.IsNaN(float64(s.Top1)) { // the screen's loss is the last step's
		epoch := s.Epochs
		if n > 0 { // a resumed run counts on from an earlier run's epochs
			epoch = int(s.EpochTimes[n-1].Epoch) + 1
		}
		fmt.Fprintf(b, " and top-1 %s (means of epoch %d)", units.Prose.Percent(float64(s.Top1)), epoch)
	}
	if n > 0 && s.EpochTimes[n-1].testSummary != nil {
		t := s.EpochTimes[n-1].testSummary
		fmt.Fprintf(b, "; on %s test samples loss %s and top-1 %s", units.Count(t.Samples), units.Loss(float64(t.Loss)), units.Prose.Percent(float64(t.Top1)))
	}
}

// writeLine writes a line that begins with a label.
func writeLine(b *strings.Builder, label, format string, args ...any) {
	fmt.Fprintf(b, "%-*s", cli.LabelWidth, label)
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}

// writeJudgement says what was found, and what to do.
func (s *Run) writeJudgement(b *strings.Builder) {
	if s.Diverged != nil {
		writeLine(b, "diverged", "the loss is not a number since step %d: lower --lr; what the device waited for was measured all the same", *s.Diverged)
	}
	if text := s.advice.Verdict.Text; text != "" {
		if s.Segments > 1 {
			text = "on segment " + s.Judged + ", " + text
		}
		writeLine(b, "verdict", "%s", text)
	}
	next, why := s.advice.Next()
	if next != "" {
		writeLine(b, "next", "%s", next)
	}
	if why != "" {
		writeLine(b, "why", "%s", why)
	}
}

// writeExperiments says what the run's experiments found.
func (s *Run) writeExperiments(b *strings.Builder) {
	for i := range s.advice.Experiments {
		x := &s.advice.Experiments[i]
		writeLine(b, x.Name(), "%s", units.Line(x.Text()))
		kept := &s.Experiments[i]
		if kept.Flags != "" {
			writeLine(b, "settings", "%s", kept.Flags)
		}
		if kept.DataLoader != "" && !s.foreign { // of a script's training the last lines have it
			writeLine(b, "code", "%s", kept.DataLoader)
		}
	}
	if c := &s.advice.Ceiling; c.Text != "" && !c.Again {
		writeLine(b, "ceiling", "%s, from the settings judged", c.Text)
	}
}

// writeRemarks says what else there is to know, and what the session lacks.
func (s *Run) writeRemarks(b *strings.Builder) {
	for i := range s.advice.Asides {
		writeLine(b, "remark", "%s", s.advice.Asides[i].Evidence)
	}
	for _, n := range s.Notes {
		writeLine(b, "note", "%s", n)
	}
	if text := tunedText(s.Autotune); text != "" {
		writeLine(b, "autotune", "%s", text)
	}
	if s.dropped != "" {
		writeLine(b, "dropped", "%s", s.dropped)
	}
	if u := s.Unsaved; u != nil {
		writeLine(b, "unsaved", "%s, of %s to %s after the start, are not in the session's file",
			advice.Lost(u.Steps, u.Spans), units.Prose.Time(u.From.ns()), units.Prose.Time(u.To.ns()))
	}
}
