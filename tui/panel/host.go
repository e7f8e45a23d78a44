package panel

import (
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Host is the panel of what the host was in while a GPU was idle, for an imported
// trace.
type Host struct {
	Card
	table   canvas.Table[trace.HostTime]
	profile *trace.Profile
}

// NewHost makes the panel. The profile has a GPU.
func NewHost(p *trace.Profile) *Host {
	h := &Host{Card: Card{Key: "0", Name: "host", Title: "Host", Hint: "host", Side: true, Instead: true}, profile: p}
	h.table = canvas.Table[trace.HostTime]{Columns: h.columns(), Shorten: 3, Marks: true, Cursor: -1, Pinned: -1}
	h.Keys = []Binding{
		scrollKeys(func(lines int) { h.table.ScrollBy(lines, len(p.Busiest().Host)) }),
		{Keys: "esc", Hint: "back", Replay: "back"},
	}
	return h
}

// Place asks for half of the screen, instead of the other side panels.
func (*Host) Place(s Space) Place { return placeInstead(s) }

func (h *Host) columns() []canvas.Column[trace.HostTime] {
	share := func(t *trace.HostTime) float64 {
		return float64(t.Time) / float64(max(1, h.profile.Busiest().Idle.All()))
	}
	return []canvas.Column[trace.HostTime]{
		{Title: "in a", W: 15, Short: 8, Cell: func(p *canvas.Pen, t *trace.HostTime) { p.Text(canvas.Dim, string(t.Part)) }},
		{Title: "name", W: 14, Most: 60, Cell: func(p *canvas.Pen, t *trace.HostTime) { p.Text(canvas.Bold, units.Line(t.Name)) }},
		{Title: "of idle", W: 7, Right: true, Cell: func(p *canvas.Pen, t *trace.HostTime) {
			p.Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), share(t)))
		}},
		{W: 10, Drop: 2, Cell: func(p *canvas.Pen, t *trace.HostTime) { p.Bar(canvas.Warn, p.Left(), share(t)) }},
		{Title: "a step", W: 8, Right: true, Drop: 1, Cell: func(p *canvas.Pen, t *trace.HostTime) {
			p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), t.Time/max(1, h.profile.Count)))
		}},
	}
}

// Draw draws the table.
func (h *Host) Draw(v *View, r canvas.Rectangle) {
	g := h.profile.Busiest()
	v.Head.Text(canvas.Dim, "while the GPU was idle, ").Bytes(canvas.Bold, units.Narrow.AppendPercent(v.Head.Buf(), h.profile.ShareOf(g.Idle.All()))).Text(canvas.Dim, " of all steps; each kind divides it, the innermost counts ")
	if in := r.Indent(); !in.Empty() {
		h.table.Draw(v.C, in, g.Host)
	}
}
