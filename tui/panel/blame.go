package panel

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Blame is the panel of the worst batches, or the worst samples, of the run.
type Blame struct {
	Card
	bySample         bool // the samples are shown, not the batches
	table            canvas.Table[culprit]
	batches, samples []culprit
}

// culprit is a row, with the texts that are made once and not for every frame.
type culprit struct {
	attribution.Blamed
	who, what, rank string
}

// Set takes what the analysis found.
func (b *Blame) Set(found attribution.Blame) {
	b.batches, b.samples = culprits(b.batches[:0], found.Batches), culprits(b.samples[:0], found.Samples)
}

func culprits(rows []culprit, of []attribution.Blamed) []culprit {
	for i := range of {
		r := &of[i]
		rows = append(rows, culprit{*r, r.Who(), units.Line(r.What()), r.Percentile()})
	}
	return rows
}

// rows returns the rows shown.
func (b *Blame) rows() []culprit {
	if b.bySample {
		return b.samples
	}
	return b.batches
}

// NewBlame makes the panel.
func NewBlame() *Blame {
	b := &Blame{Card: Card{Key: "7", Name: "blame", Title: "Blame", Side: true, Instead: true}}
	b.table = canvas.Table[culprit]{Columns: b.columns(), Shorten: 7, Marks: true, Cursor: -1, Pinned: -1}
	b.Keys = []Binding{
		scrollKeys(func(lines int) { b.table.ScrollBy(lines, len(b.rows())) }),
		{Keys: "b", Hint: "batches or samples", Replay: "batches or samples", Help: "the worst batches, or the worst samples", Do: b.turn},
		{Keys: "esc", Hint: "back", Replay: "back"},
	}
	return b
}

// Place asks for half of the screen, instead of the other side panels.
func (*Blame) Place(s Space) Place { return placeInstead(s) }

func (b *Blame) turn(string) tea.Cmd {
	b.bySample = !b.bySample
	b.table.Scroll = 0
	return nil
}

// columns returns the columns. On a narrow table, the columns that say who kept the device waiting,
// and for how long, go last.
func (b *Blame) columns() []canvas.Column[culprit] {
	text := func(title string, w, drop int, text func(r *culprit) string) canvas.Column[culprit] {
		return canvas.Column[culprit]{Title: title, W: w, Drop: drop, Cell: func(p *canvas.Pen, r *culprit) { p.Text(canvas.Normal, text(r)) }}
	}
	time := func(title string, drop int, ns func(r *culprit) (int64, bool)) canvas.Column[culprit] {
		return canvas.Column[culprit]{Title: title, W: 8, Drop: drop, Right: true, Cell: func(p *canvas.Pen, r *culprit) {
			if v, known := ns(r); known {
				p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), v))
			} else {
				p.Text(canvas.Dim, "-")
			}
		}}
	}
	split := func(of func(s trace.Split) int64) func(r *culprit) (int64, bool) {
		return func(r *culprit) (int64, bool) { return of(r.Split), r.Split.Total() > 0 }
	}
	seen := canvas.Column[culprit]{Title: "seen", W: 5, Drop: 4, Right: true, Shown: func() bool { return b.bySample },
		Cell: func(p *canvas.Pen, r *culprit) { p.Int(canvas.Normal, int64(r.Seen)) }}
	note := text("note", 14, 6, func(r *culprit) string { return r.Note() })
	note.Shown = func() bool { // without notes, the names of the samples have its room
		return !b.bySample && slices.ContainsFunc(b.batches, func(r culprit) bool { return r.Note() != "" })
	}
	stall := time("stall", 0, func(r *culprit) (int64, bool) { return r.Starved, true })
	return []canvas.Column[culprit]{
		{Title: "step", W: 9, Drop: 3, Right: true, Cell: func(p *canvas.Pen, r *culprit) {
			p.Bytes(canvas.Dim, units.AppendCount(p.Buf(), r.Step))
		}},
		text("worker, phase", 14, 0, func(r *culprit) string { return r.who }),
		time("took", 0, func(r *culprit) (int64, bool) { return r.Took, true }),
		text("pctl", 4, 5, func(r *culprit) string { return r.rank }),
		time("core", 8, split(func(s trace.Split) int64 { return s.Core })),
		time("no core", 2, split(func(s trace.Split) int64 { return s.Waiting })),
		time("blocked", 7, split(func(s trace.Split) int64 { return s.Blocked })),
		stall,
		seen,
		note,
		{Title: "slowest sample", W: 12, Most: canvas.Stretch, Drop: 1, Cell: func(p *canvas.Pen, r *culprit) {
			writeTail(p, r.what)
		}},
	}
}

// writeTail writes a text. Where it is too long it writes the end.
func writeTail(p *canvas.Pen, s string) {
	end, cut := units.Tail(s, p.Left())
	if cut {
		p.Text(canvas.Dim, units.CutMark)
	}
	p.Text(canvas.Normal, end)
}

// Draw draws the table.
func (b *Blame) Draw(v *View, r canvas.Rectangle) {
	v.Head.Text(canvas.Dim, "the worst ").Text(canvas.Normal, Pick(b.bySample, "samples", "batches")).Text(canvas.Dim, " of the run, by ").
		Text(canvas.Normal, Pick(b.bySample, "what they took in one phase", "how long the device waited for them")).Text(canvas.Dim, " ")
	in := r.Indent()
	if in.Empty() {
		return
	}
	if len(b.rows()) == 0 {
		none := Pick(b.bySample, "no sample was timed", "no batch was late")
		switch {
		case v.Live.Meta.Imported != "":
			none = advice.NoBatches
		case v.Live.Outcome.Ended == 0:
			none += " yet"
		}
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, none)
		return
	}
	b.table.Draw(v.C, in, b.rows())
}
