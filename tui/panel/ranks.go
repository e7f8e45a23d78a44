package panel

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
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
	screen  Screen
	look    func(trace.Peer) *exec.Cmd // opens the screen of another rank's session
	chosen  int                        // the rank under the cursor; -1: the first, until another is selected
	about   int                        // the rank that this session is about
	table   canvas.Table[rankRow]
	rows    []rankRow
	slowest string // why the slowest one is slow, and what it does
	silent  string // which ranks ended no step, and for how long
}

// rankRow is how one rank did.
type rankRow struct {
	trace.Rank
	slowest bool
	peer    trace.Peer // what its gpustall tells of it, where that is another one
	own     int64      // ns of a step in which the rank waits for no other rank
}

// Set takes how the ranks did, and what other gpustalls tell of theirs.
func (k *Ranks) Set(f *Findings) {
	of := f.Ranks
	k.about = f.Rank
	at, why := attribution.SlowestRank(of)
	k.rows, k.slowest, k.silent = k.rows[:0], "", silent(f.Still)
	if f.Stand != "" && k.silent != "" {
		k.silent += "; " + f.Stand
	}
	if at >= 0 {
		k.slowest = why
	}
	for i, r := range of {
		row := rankRow{Rank: r, slowest: i == at, own: r.Own() / max(1, r.Steps), peer: trace.Peer{Node: f.Node}}
		for _, p := range f.Peers {
			if p.Rank != r.Rank {
				continue
			}
			row.peer = p
			if what := strings.TrimPrefix(p.Waits+" at "+p.Line, " at "); row.slowest && p.Line != "" {
				k.slowest = units.Line(what) + "; " + k.slowest
			}
		}
		k.rows = append(k.rows, row)
	}
	if at >= 0 {
		k.slowest = fmt.Sprintf("rank %d: %s", of[at].Rank, k.slowest)
	}
	slices.SortStableFunc(k.rows, func(a, b rankRow) int { return cmp.Compare(b.own, a.own) })
	k.table.Cursor = max(0, slices.IndexFunc(k.rows, func(r rankRow) bool { return r.Rank.Rank == k.chosen }))
}

// silent says which ranks ended no step, those first that did so for longest.
func silent(still map[int]int64) string {
	ranks := slices.SortedFunc(maps.Keys(still), func(a, b int) int { return cmp.Compare(still[b], still[a]) })
	var texts []string
	for len(ranks) > 0 {
		since, n := still[ranks[0]], 1
		for n < len(ranks) && still[ranks[n]] >= max(min(since, 1), since-2*int64(time.Second)) { // each is counted once a second
			n++
		}
		text := "nothing is known of "
		if since > 0 {
			text = fmt.Sprintf("no step for %d s: ", since/int64(time.Second))
		}
		texts, ranks = append(texts, text+advice.Names(ranks[:n])), ranks[n:]
	}
	return strings.Join(texts, "; ")
}

// move moves the cursor by so many rows.
func (k *Ranks) move(by int) {
	k.table.Cursor = max(0, min(k.table.Cursor+by, len(k.rows)-1))
	if k.table.Cursor < len(k.rows) {
		k.chosen = k.rows[k.table.Cursor].Rank.Rank
	}
}

// open opens the screen of the rank under the cursor, where its own gpustall writes a session.
func (k *Ranks) open(string) tea.Cmd {
	if len(k.rows) == 0 {
		return nil
	}
	rank := k.rows[k.table.Cursor].Rank.Rank
	switch p := k.rows[k.table.Cursor].peer; {
	case rank == k.about:
		k.screen.Say("info", fmt.Sprintf("this is the screen of rank %d", rank))
	case p.Session == "":
		k.screen.Say("info", fmt.Sprintf("rank %d has no session of its own; one gpustall for each rank writes one", rank))
	default:
		cmd := k.look(p)
		var said bytes.Buffer
		cmd.Stderr = &said // the screen would hide it
		return tea.ExecProcess(cmd, func(err error) tea.Msg {
			if err == nil {
				return nil
			}
			return Failed(cmp.Or(strings.TrimSpace(said.String()), err.Error()))
		})
	}
	return nil
}

// NewRanks makes the panel.
func NewRanks(s Screen, look func(trace.Peer) *exec.Cmd) *Ranks {
	k := &Ranks{
		screen: s, look: look, chosen: -1,
		Card:  Card{Key: "9", Name: "ranks", Title: "Ranks", Hint: "ranks", Side: true, Instead: true},
		table: canvas.Table[rankRow]{Columns: rankColumns(), Marks: true, Pinned: -1},
	}
	move := scrollKeys(k.move)
	move.Hint, move.Replay, move.Help = "select", "select", "select a rank"
	k.Keys = []Binding{
		move,
		{Keys: "enter", Hint: "its screen", Replay: "its screen", Help: "open the screen of the selected rank; q there comes back", Do: k.open},
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
		{Title: "on", W: 12, Drop: 4, Cell: func(p *canvas.Pen, r *rankRow) { p.Text(canvas.Dim, units.Line(r.peer.Node)) }},
	}
}

// Draw draws the table, and under it why the slowest rank is slow.
func (k *Ranks) Draw(v *View, r canvas.Rectangle) {
	v.Head.Text(canvas.Dim, "of the training, the last 10 s; all else is rank ").Int(canvas.Dim, int64(k.about)).Text(canvas.Dim, "'s ")
	in := r.Indent()
	if in.Empty() {
		return
	}
	if len(k.rows) == 0 {
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, "no rank ended a step in that time")
		for i, line := range canvas.Wrap(k.silent, in.W) {
			if i+1 < in.H {
				v.C.Text(in.X, in.Y+i+1, in.W, canvas.Dim, line)
			}
		}
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
	k.table.Lit = v.Focused
	k.table.Draw(v.C, in, k.rows)
}
