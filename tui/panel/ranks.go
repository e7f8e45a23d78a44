package panel

import (
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// rankWindow is how much time, up to the moment shown, the rows are of.
const rankWindow = 10 * time.Second

// Ranks is the panel of a distributed training's ranks on this machine.
type Ranks struct {
	Card
	table   canvas.Table[rankRow]
	rows    []rankRow
	slowest string // why the slowest one is slow
}

// rankRow is how one rank did.
type rankRow struct {
	trace.Rank
	slowest bool
}

// Set takes how the ranks did.
func (k *Ranks) Set(of []trace.Rank) {
	at, why := attribution.SlowestRank(of)
	k.rows = k.rows[:0]
	for i, r := range of {
		k.rows = append(k.rows, rankRow{r, i == at})
	}
	k.slowest = why
}

// NewRanks makes the panel.
func NewRanks() *Ranks {
	k := &Ranks{
		Card:  Card{Key: "9", Name: "ranks", Title: "Ranks", Hint: "ranks", Side: true, Instead: true},
		table: canvas.Table[rankRow]{Columns: rankColumns(), Marks: true, Cursor: -1, Pinned: -1},
	}
	k.Keys = []Binding{
		scrollKeys(func(lines int) { k.table.ScrollBy(lines, len(k.rows)) }),
		{Keys: "esc", Hint: "back", Replay: "back"},
	}
	return k
}

// Place asks for half of the screen, instead of the other side panels.
func (*Ranks) Place(s Space) Place { return placeInstead(s) }

func rankColumns() []canvas.Column[rankRow] {
	return []canvas.Column[rankRow]{
		{Title: "rank", W: 5, Right: true, Cell: func(p *canvas.Pen, r *rankRow) { p.Int(canvas.Bold, int64(r.Rank.Rank)) }},
		{Title: "waits for data", W: 14, Right: true, Cell: func(p *canvas.Pen, r *rankRow) {
			st := StallStyle(r.Data())
			p.Bytes(st, units.Narrow.AppendPercent(p.Buf(), r.Data())).Text(st, levelMark(st))
		}},
		{W: 4, Most: 30, Drop: 2, Cell: func(p *canvas.Pen, r *rankRow) { p.Bar(StallStyle(r.Data()), p.Left(), r.Data()) }},
		{Title: "a step", W: 8, Right: true, Cell: func(p *canvas.Pen, r *rankRow) {
			p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), r.Step()))
		}},
		{Title: "steps", W: 6, Drop: 1, Right: true, Cell: func(p *canvas.Pen, r *rankRow) { p.Bytes(canvas.Normal, units.AppendCount(p.Buf(), r.Steps)) }},
		{W: 7, Cell: func(p *canvas.Pen, r *rankRow) { p.Text(canvas.Warn, Pick(r.slowest, "slowest", "")) }},
	}
}

// Draw draws the table, and under it why the slowest rank is slow.
func (k *Ranks) Draw(v *View, r canvas.Rectangle) {
	v.Head.Text(canvas.Dim, "of the training, the last 10 s; all else is the first one's ")
	in := r.Indent()
	if in.Empty() {
		return
	}
	if len(k.rows) == 0 {
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, "no rank ended a step in that time")
		return
	}
	if k.slowest != "" && in.H > 3 {
		lines := canvas.Wrap("slowest: "+k.slowest, in.W)
		lines = lines[:min(len(lines), in.H-3)]
		in.H -= len(lines)
		for i, line := range lines {
			v.C.Text(in.X, in.Y+in.H+i, in.W, canvas.Dim, line)
		}
	}
	k.table.Draw(v.C, in, k.rows)
}
