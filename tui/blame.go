package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// blame is the panel of the worst batches, or the worst samples, of the run.
type blame struct {
	bySample         bool // the samples are shown, not the batches
	table            canvas.Table[culprit]
	batches, samples []culprit
}

// culprit is a row, with what a frame shall not put together again and again.
type culprit struct {
	attribution.Blamed
	who, what, rank string
}

// set takes what was worked out.
func (b *blame) set(found attribution.Blame) {
	b.batches, b.samples = culprits(b.batches[:0], found.Batches), culprits(b.samples[:0], found.Samples)
}

func culprits(rows []culprit, of []attribution.Blamed) []culprit {
	for i := range of {
		r := &of[i]
		rows = append(rows, culprit{*r, r.Who(), units.Line(r.What()), r.Percentile()})
	}
	return rows
}

// rows are those shown.
func (b *blame) rows() []culprit {
	if b.bySample {
		return b.samples
	}
	return b.batches
}

func (b *blame) panel() panel {
	b.table = canvas.Table[culprit]{Columns: b.columns(), Shorten: 7, Marks: true, Cursor: -1, Pinned: -1}
	return panel{
		key: "7", name: "blame", title: "Blame", side: true, instead: true,
		place: func(s space) place {
			if s.class == sizeCompact {
				return place{band: lowerBand}
			}
			return place{band: lastBand, rows: s.rest() / 2}
		},
		about: b.about,
		draw:  b.draw,
		keys: []binding{
			{keys: upDownKeys, also: pageKeys, show: upDown, hint: "scroll", replay: "scroll", help: "scroll", do: b.scroll},
			{keys: "b", hint: "batches or samples", replay: "batches or samples", help: "the worst batches, or the worst samples", do: b.turn},
			{keys: "esc", hint: "back", replay: "back"},
		},
	}
}

func (b *blame) scroll(_ *Model, key string) tea.Cmd {
	d, far := direction(key)
	if far == stridePage {
		d *= 10
	}
	b.table.Scroll = max(0, min(b.table.Scroll+d, len(b.rows()))) // drawing knows how many have room
	return nil
}

func (b *blame) turn(*Model, string) tea.Cmd {
	b.bySample = !b.bySample
	b.table.Scroll = 0
	return nil
}

// columns: what starved the device and who it was stay longest.
func (b *blame) columns() []canvas.Column[culprit] {
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
	note.Shown = func() bool { // else its room is better for the samples' names
		return !b.bySample && slices.ContainsFunc(b.batches, func(r culprit) bool { return r.Note() != "" })
	}
	starved := time("starved", 0, func(r *culprit) (int64, bool) { return r.Starved, true })
	return []canvas.Column[culprit]{
		{Title: "step", W: 9, Drop: 3, Right: true, Cell: func(p *canvas.Pen, r *culprit) {
			p.Bytes(canvas.Dim, units.AppendCount(p.Buf(), r.Step))
		}},
		text("worker, phase", 14, 0, func(r *culprit) string { return r.who }),
		time("took", 0, func(r *culprit) (int64, bool) { return r.Took, true }),
		text("rank", 4, 5, func(r *culprit) string { return r.rank }),
		time("core", 8, split(func(s trace.Split) int64 { return s.Core })),
		time("no core", 2, split(func(s trace.Split) int64 { return s.Waiting })),
		time("blocked", 7, split(func(s trace.Split) int64 { return s.Blocked })),
		starved,
		seen,
		note,
		{Title: "slowest sample", W: 12, Most: canvas.Stretch, Drop: 1, Cell: func(p *canvas.Pen, r *culprit) {
			writeTail(p, r.what)
		}},
	}
}

// writeTail writes a text, or its end where not all of it has room.
func writeTail(p *canvas.Pen, s string) {
	end, cut := units.Tail(s, p.Left())
	if cut {
		p.Text(canvas.Dim, units.CutMark)
	}
	p.Text(canvas.Normal, end)
}

func (b *blame) about(_ *view, p *canvas.Pen) {
	p.Text(canvas.Dim, "the worst ").Text(canvas.Normal, pick(b.bySample, "samples", "batches")).Text(canvas.Dim, " of the run, by ").
		Text(canvas.Normal, pick(b.bySample, "what they took in one phase", "how long the device waited for them")).Text(canvas.Dim, " ")
}

func (b *blame) draw(v *view, r canvas.Rectangle) {
	in := r.Indent()
	if in.Empty() {
		return
	}
	if len(b.rows()) == 0 {
		none := pick(b.bySample, "no sample was timed", "no batch was late")
		switch {
		case v.live.Meta.Imported != "":
			none = advice.NoBatches
		case v.live.Outcome.Ended == 0:
			none += " yet"
		}
		v.c.Text(in.X, in.Y, in.W, canvas.Dim, none)
		return
	}
	b.table.Draw(v.c, in, b.rows())
}
