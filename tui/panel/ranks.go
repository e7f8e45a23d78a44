package panel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// rankWindow is the time up to the moment shown that the rows are about.
const rankWindow = 10 * time.Second

// mostRanks is how many ranks' counts reach a session within rankWindow.
const mostRanks = 64

// Ranks is the panel of a distributed training's ranks.
type Ranks struct {
	Card
	table   canvas.Table[rankRow]
	rows    []rankRow
	slowest string // why the slowest one is slow, and what it does
	silent  string // which ranks ended no step
}

// rankRow is how one rank did.
type rankRow struct {
	trace.Rank
	slowest bool
	node    string // its machine, if that is another one or there are several
	own     int64  // ns of a step in which the rank waits for no other rank
}

// Set takes how the ranks did, of so many in all, and what other gpustalls tell of theirs.
func (k *Ranks) Set(of []trace.Rank, peers []trace.Peer, world int) {
	at, why := attribution.SlowestRank(of)
	k.rows, k.slowest, k.silent = k.rows[:0], "", ""
	if at >= 0 {
		k.slowest = fmt.Sprintf("rank %d: %s", of[at].Rank, why)
	}
	var quiet []string
	if world > mostRanks { // counts of so many ranks come too rarely to tell
		world = 0
	}
	for rank := range world {
		if !slices.ContainsFunc(of, func(r trace.Rank) bool { return r.Rank == rank }) {
			quiet = append(quiet, strconv.Itoa(rank))
		}
	}
	if len(quiet) > 0 && len(of) > 0 {
		k.silent = "no step in that time: rank " + strings.Join(quiet, ", ")
	}
	for i, r := range of {
		row := rankRow{Rank: r, slowest: i == at, own: r.Own() / max(1, r.Steps)}
		for _, p := range peers {
			if p.Rank != r.Rank {
				continue
			}
			row.node = units.Line(p.Node)
			if what := strings.TrimPrefix(p.Waits+" at "+p.Line, " at "); row.slowest && p.Line != "" {
				k.slowest += "; " + units.Line(what)
			}
		}
		k.rows = append(k.rows, row)
	}
	slices.SortStableFunc(k.rows, func(a, b rankRow) int { return cmp.Compare(b.own, a.own) })
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
		{Title: "own time", W: 8, Drop: 3, Right: true, Cell: func(p *canvas.Pen, r *rankRow) {
			p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), r.own))
		}},
		{W: 7, Cell: func(p *canvas.Pen, r *rankRow) { p.Text(canvas.Warn, Pick(r.slowest, "slowest", "")) }},
		{Title: "on", W: 12, Drop: 4, Cell: func(p *canvas.Pen, r *rankRow) { p.Text(canvas.Dim, r.node) }},
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
	for _, text := range []string{k.silent, k.slowest} {
		if text == "" || in.H <= 3 {
			continue
		}
		lines := canvas.Wrap(text, in.W)
		lines = lines[:min(len(lines), in.H-3)]
		in.H -= len(lines)
		for i, line := range lines {
			v.C.Text(in.X, in.Y+in.H+i, in.W, canvas.Dim, line)
		}
	}
	k.table.Draw(v.C, in, k.rows)
}
