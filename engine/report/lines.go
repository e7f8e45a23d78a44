package report

import (
	"cmp"

	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// where is the section about the lines of the user's code that cost the time.
type where struct {
	lines []lines.Cost
	name  string // of the segment
}

func newWhere(a *account) where {
	if a.kept < 0 || a.kept >= len(a.rows) {
		return where{}
	}
	return where{a.advice.Lines, a.rows[a.kept].Name()}
}

// The lines listed, and the share of the time from which one is.
const (
	listedLines = 15
	listedFrom  = 0.005
)

func (w where) write(d *markup.Document) {
	rows := [][]string{{"line", ">of the time", "at", "source", "most of it in"}}
	looks := 0
	for i := range w.lines {
		c := &w.lines[i]
		looks += c.Looks
		if len(rows) > listedLines || c.Lost < listedFrom && c.Part < 0.05 {
			continue
		}
		rows = append(rows, []string{c.Where(), units.Prose.Percent(c.Lost), string(c.At), cmp.Or(c.What(), "-"), cmp.Or(c.In, "-")})
	}
	if len(rows) == 1 {
		return
	}
	d.Heading(2, "Which lines of code it is")
	d.Table(rows)
	d.Sentences(
		"With the settings of "+w.name+", by "+units.Counted(looks, "look", "looks")+" at the Python frames of the training loop and its workers.",
		"The line is the innermost one of the script's own code; where a library loads by itself, it is the library's function.",
		"Of lines at '"+string(trace.Loading)+"', the time is what the device lost: its wait for data, divided by the time of loading that each line has.",
		"Of the others, it is what the training loop spent on them.",
		"A share of 30 % that rests on 100 looks is known to about 9 points.",
	)
}
