package summary

import "dev.gpustall/engine/analysis/lines"

// lineSummary is a line of a PyTorch training's code.
type lineSummary struct {
	File   string `json:"file"` // empty if no line has the time, but what function names
	Line   int    `json:"line"`
	Func   string `json:"function"`
	At     string `json:"at"`
	Text   string `json:"source"`
	In     string `json:"in,omitempty"`
	Share  number `json:"share"`
	OfKind number `json:"of_kind"`
	Looks  int    `json:"looks"`
}

func lineTable(costs []lines.Cost) (rows []lineSummary) {
	for _, c := range costs {
		rows = append(rows, lineSummary{c.File, c.Number, c.Func, string(c.At), c.Text, c.In, number(c.Lost), number(c.Part), c.Looks})
	}
	return rows
}
