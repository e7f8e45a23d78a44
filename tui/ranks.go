package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// rankWindow is the time before the moment shown that the ranks' rows are of.
const rankWindow = 10 * time.Second

// ranks is the panel of a distributed training's ranks on this machine.
type ranks struct {
	table   canvas.Table[rankRow]
	rows    []rankRow
	slowest string // which one the others wait for, and why
}

// rankRow is how one did.
type rankRow struct {
	trace.Rank
	slowest bool
}

// set takes how they did.
func (k *ranks) set(of []trace.Rank) {
	at, why := attribution.SlowestRank(of)
	k.rows = k.rows[:0]
	for i, r := range of {
		k.rows = append(k.rows, rankRow{r, i == at})
	}
	k.slowest = why
}

func (k *ranks) panel() panel {
	k.table = canvas.Table[rankRow]{Columns: rankColumns(), Marks: true, Cursor: -1, Pinned: -1}
	return panel{
		key: "9", name: "ranks", title: "Ranks", hint: "ranks", side: true, instead: true,
		place: func(s space) place {
			if s.class == sizeCompact {
				return place{band: lowerBand}
			}
			return place{band: lastBand, rows: s.rest() / 2}
		},
		about: func(_ *view, p *canvas.Pen) {
			p.Text(canvas.Dim, "of the training, the last 10 s; all else is the first one's ")
		},
		draw: k.draw,
		keys: []binding{
			{keys: upDownKeys, also: pageKeys, show: upDown, hint: "scroll", replay: "scroll", help: "scroll", do: func(_ *Model, key string) tea.Cmd {
				d, far := direction(key)
				k.table.Scroll = max(0, min(k.table.Scroll+d*pick(far == stridePage, 10, 1), len(k.rows)))
				return nil
			}},
			{keys: "esc", hint: "back", replay: "back"},
		},
	}
}

func rankColumns() []canvas.Column[rankRow] {
	return []canvas.Column[rankRow]{
		{Title: "rank", W: 5, Right: true, Cell: func(p *canvas.Pen, r *rankRow) { p.Int(canvas.Bold, int64(r.Rank.Rank)) }},
		{Title: "waits for data", W: 14, Right: true, Cell: func(p *canvas.Pen, r *rankRow) {
			st := stallStyle(r.Data())
			p.Bytes(st, units.Narrow.AppendPercent(p.Buf(), r.Data())).Text(st, levelMark(st))
		}},
		{W: 4, Most: 30, Drop: 2, Cell: func(p *canvas.Pen, r *rankRow) { p.Bar(stallStyle(r.Data()), p.Left(), r.Data()) }},
		{Title: "a step", W: 8, Right: true, Cell: func(p *canvas.Pen, r *rankRow) {
			p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), r.Step()))
		}},
		{Title: "steps", W: 6, Drop: 1, Right: true, Cell: func(p *canvas.Pen, r *rankRow) { p.Bytes(canvas.Normal, units.AppendCount(p.Buf(), r.Steps)) }},
		{W: 7, Cell: func(p *canvas.Pen, r *rankRow) { p.Text(canvas.Warn, pick(r.slowest, "slowest", "")) }},
	}
}

func (k *ranks) draw(v *view, r canvas.Rectangle) {
	in := r.Indent()
	if in.Empty() {
		return
	}
	if len(k.rows) == 0 {
		v.c.Text(in.X, in.Y, in.W, canvas.Dim, "no rank ended a step in that time")
		return
	}
	if k.slowest != "" && in.H > 3 {
		lines := canvas.Wrap("slowest: "+k.slowest, in.W)
		lines = lines[:min(len(lines), in.H-3)]
		in.H -= len(lines)
		for i, line := range lines {
			v.c.Text(in.X, in.Y+in.H+i, in.W, canvas.Dim, line)
		}
	}
	k.table.Draw(v.c, in, k.rows)
}
