package panel

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	code "dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/tui/canvas"
)

// Lines is the panel of the lines of a PyTorch training's code that cost the time.
type Lines struct {
	Card
	screen Screen
	looks  Looks
	table  canvas.Table[code.Cost]
	rows   []code.Cost // that the filter lets through
	most   float64     // the share of the longest bar
	chosen code.Cost   // the row under the cursor, as it was last drawn
	open   bool        // its callers are shown in place of the table
	filter string
}

// Looks is how often a run looks for lines of code.
type Looks interface {
	LookRates() []string  // in the order in which a key goes through them, the default first
	Looks() string        // one of the rates
	SetLooks(rate string) // takes effect at the next look
}

// NewLines makes the panel. looks is nil if nothing is looked at, as in a replay.
func NewLines(s Screen, looks Looks) *Lines {
	l := &Lines{Card: Card{Key: "0", Name: "lines", Title: "Lines", Hint: "lines", Side: true, Instead: true}, screen: s, looks: looks}
	l.table = canvas.Table[code.Cost]{Columns: l.columns(), Shorten: 5, Pinned: -1, Marks: true}
	move := scrollKeys(l.move)
	move.Hint, move.Replay, move.Help = "select", "select", "select a line"
	l.Keys = []Binding{
		move,
		{Keys: "enter", Hint: "callers", Replay: "callers", Help: "show which calls lead to the line, or the table again", Do: func(string) tea.Cmd {
			l.open = !l.open && len(l.rows) > 0
			return nil
		}},
		{Keys: "/", Hint: "filter", Replay: "filter"},
	}
	if looks != nil {
		l.Keys = append(l.Keys, Binding{Keys: "r", Live: true, Hint: "rate", Help: "how often lines are looked for: on (20 times a second), fast (100 times), off", Do: func(string) tea.Cmd {
			turnLooks(looks, 1)
			return nil
		}})
	}
	l.Keys = append(l.Keys, Binding{Keys: "esc", Hint: "back", Replay: "back"})
	return l
}

// turnLooks takes the rate that is so many further on, and the first after the last.
func turnLooks(looks Looks, by int) {
	rates := looks.LookRates()
	n := len(rates)
	looks.SetLooks(rates[((slices.Index(rates, looks.Looks())+by)%n+n)%n])
}

// TypeFilter lets the user type the text that a line's file, source or function must contain.
func (l *Lines) TypeFilter() {
	set := func(text string) { l.filter, l.open = text, false }
	set("")
	l.screen.Prompt(&Prompt{Question: "show lines with ", Most: 24, Changed: set, End: func(text string, ok bool) { set(Pick(ok, text, "")) }})
}

// DropFilter shows the table of all lines again, and reports whether anything else was
// shown.
func (l *Lines) DropFilter() bool {
	had := l.open || l.filter != ""
	l.open, l.filter = false, ""
	return had
}

// move moves the cursor by so many rows.
func (l *Lines) move(by int) {
	l.table.Cursor = max(0, min(l.table.Cursor+by, len(l.rows)-1))
	if l.table.Cursor < len(l.rows) {
		l.chosen = l.rows[l.table.Cursor]
	}
}

// arrange keeps the rows that the filter lets through, and the cursor on its line, wherever that is now.
func (l *Lines) arrange(all []code.Cost) {
	l.rows = l.rows[:0]
	at := -1
	text := strings.ToLower(l.filter)
	for i := range all {
		c := &all[i]
		if text != "" && !strings.Contains(strings.ToLower(c.Where()+" "+c.File+" "+c.What()+" "+c.In+" "+c.Func), text) {
			continue
		}
		if c.File == l.chosen.File && c.Number == l.chosen.Number && c.Func == l.chosen.Func && c.At == l.chosen.At {
			at = len(l.rows)
		}
		l.rows = append(l.rows, *c)
	}
	if at >= 0 {
		l.table.Cursor = at
	} else {
		l.open = false
	}
	l.move(0)
}

// Place asks for half of the screen, instead of the other side panels.
func (*Lines) Place(s Space) Place { return placeInstead(s) }

func (l *Lines) columns() []canvas.Column[code.Cost] {
	return []canvas.Column[code.Cost]{
		{Title: "line", W: 24, Short: 18, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Bold, c.Where()) }},
		{Title: "of time", W: 7, Right: true, Cell: func(p *canvas.Pen, c *code.Cost) {
			p.Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), c.Lost))
		}},
		{W: 10, Drop: 4, Cell: func(p *canvas.Pen, c *code.Cost) { p.Bar(canvas.Warn, p.Left(), c.Lost/max(l.most, 1e-9)) }},
		{Title: "at", W: 9, Drop: 1, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Dim, string(c.At)) }},
		{Title: "source", W: 14, Most: 90, Drop: 2, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Normal, c.What()) }},
		{Title: "most of it in", W: 28, Drop: 3, Cell: func(p *canvas.Pen, c *code.Cost) { p.Text(canvas.Dim, units.Line(c.In)) }},
	}
}

// Draw draws the table, or the callers of the line under the cursor.
func (l *Lines) Draw(v *View, r canvas.Rectangle) {
	if !v.Head.Whole(func(p *canvas.Pen) { p.Text(canvas.Dim, "of the script's code, with the settings in force ") }) {
		v.Head.Text(canvas.Dim, "of the script's code ")
	}
	if l.looks != nil && l.looks.Looks() != l.looks.LookRates()[0] {
		v.Head.Text(canvas.Dim, "lines ").Text(canvas.Bold, l.looks.Looks()).Space(1)
	}
	if l.filter != "" {
		v.Head.Text(canvas.Key, " /").Text(canvas.Key, l.filter).Text(canvas.Dim, " ")
	}
	in := r.Indent()
	if in.Empty() {
		return
	}
	all := v.Analysis.Told.Lines
	l.arrange(all)
	switch {
	case len(all) == 0:
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, "too few looks at the script's frames so far; the notes say so where they cannot be read")
	case len(l.rows) == 0:
		p := v.C.Pen(in.X, in.Y, in.W)
		p.Text(canvas.Dim, "no line matches /").Text(canvas.Bold, l.filter).Text(canvas.Dim, "   / then enter shows all")
	case l.open:
		l.drawCallers(v, in)
	default:
		l.most, l.table.Lit = all[0].Lost, v.Focused
		l.table.Draw(v.C, in, l.rows)
	}
}

// drawCallers draws the calls that lead to the line, outermost first. If there is no room for all,
// the outermost are missing.
func (l *Lines) drawCallers(v *View, r canvas.Rectangle) {
	c := &l.chosen
	p := v.C.Pen(r.X, r.Y, r.W)
	p.Text(canvas.Bold, c.Where()).Space(1)
	p.Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), c.Lost)).Text(canvas.Dim, " of time  ").Text(canvas.Normal, c.What())
	calls := c.Callers()
	if len(calls) == 0 {
		v.C.Text(r.X, r.Y+1, r.W, canvas.Dim, "its callers are not known: it has less than 1 % of the time")
		return
	}
	left := r.H - 1
	if hidden := len(calls) - left; hidden > 0 && left > 1 {
		calls = calls[hidden+1:]
		v.C.Text(r.X, r.Y+1, r.W, canvas.Dim, units.Counted(hidden+1, "call", "calls")+" before these")
		r.Y++
	}
	own := fmt.Sprintf("(%s:%d)", filepath.Base(c.File), c.Number)
	for i, call := range calls {
		call = units.Line(call)
		v.C.Text(r.X+min(i, r.W/4), r.Y+1+i, r.W-min(i, r.W/4), Pick(strings.HasSuffix(call, own), canvas.Bold, canvas.Normal), call)
	}
}
