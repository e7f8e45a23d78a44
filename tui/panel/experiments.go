package panel

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Experiments is the panel with one row for each segment of constant knobs, and one row for
// all segments of an experiment.
type Experiments struct {
	Card
	sel   int // the row selected; -1 follows the newest
	segs  int // number of rows
	note  int // columns that the longest note of a row needs
	table canvas.Table[experiment]
	rows  []experiment
}

// experiment is a row: what was measured of a segment, or of side B of an experiment, and how it
// compares with baseline A.
type experiment struct {
	*attribution.SegmentStats
	rate           float64 // samples a second
	mean, p50, p95 int64   // ns a step
	util, starved  float64
	steps          int64  // number of steps that these are of
	missing        string // why there is no comparison yet
	note           string // why the segment began, and a remark on the comparison
	baseline       bool   // it is A
	again          bool   // it has A's settings again, so no setting made it differ
	current        bool   // its knobs are those in force

	asked *attribution.Experiment // nil if the row is a segment's
}

// askedMarks are shown for experiments, where segments have their number.
var askedMarks = map[trace.ExperimentKind]string{trace.Paired: "A/B", trace.Ceiling: "max", trace.Tune: "tun"}

// noteOf returns the note of a segment: why it began, and a remark.
func noteOf(s *attribution.SegmentStats, remark string) string {
	if remark == "" || s.Segment.Reason == "" {
		return s.Segment.Reason + remark
	}
	return s.Segment.Reason + "; " + remark
}

// noteWidth returns how many columns writeReason needs for a note.
func noteWidth(note string) int {
	return canvas.Width(note) - strings.Count(note, arrowText)*(len(arrowText)-1)
}

// NewExperiments makes the panel.
func NewExperiments() *Experiments {
	e := &Experiments{
		Card:  Card{Key: "5", Name: "experiments", Title: "Experiments", Side: true},
		sel:   -1,
		table: canvas.Table[experiment]{Columns: measuredColumns},
	}
	e.Keys = []Binding{
		{Keys: upDownKeys, Show: UpDown, Hint: "select", Replay: "select", Help: "select", Do: func(key string) tea.Cmd {
			d, _ := direction(key)
			e.move(d, e.segs)
			return nil
		}},
		{Keys: "a", Hint: "baseline A", Replay: "baseline A"},
	}
	return e
}

// Place asks for as many rows as there are, under the timeline or across the screen.
func (e *Experiments) Place(s Space) Place {
	switch s.Class {
	case SizeCompact:
		return Place{Band: lowerBand}
	case SizeLarge:
		return Place{Band: mainBand, Under: "timeline", Rows: e.height(s, s.W-knobsWidth(s))}
	}
	return Place{Band: lastBand, Rows: e.height(s, s.W)}
}

// Selected returns the segment of the selected row. ok is false if the row is an
// experiment's, or if there is no row.
func (e *Experiments) Selected(v *View) (segment int32, ok bool) {
	e.fill(v)
	if e.table.Cursor < 0 || e.rows[e.table.Cursor].asked != nil {
		return 0, false
	}
	return e.rows[e.table.Cursor].Segment.Index, true
}

// Other returns the settings with which to compare those in force. They are the selected row's,
// if the panel has the focus and that row has other settings. Otherwise they are the
// baseline's.
func (e *Experiments) Other(v *View) []knob.Setting {
	e.fill(v)
	if at := e.table.Cursor; v.Focused && at >= 0 && !slices.Equal(e.rows[at].Segment.Knobs, v.Pic.Segment.Knobs) {
		return e.rows[at].Segment.Knobs
	}
	for i := range e.rows {
		if r := &e.rows[i]; r.baseline {
			return r.Segment.Knobs
		}
	}
	return nil
}

// height returns the height of a panel of w columns: its box, its titles, its rows, and a line
// for the note if the note is cut. There is a limit, which is higher on tall screens.
func (e *Experiments) height(s Space, w int) int {
	most := Pick(s.Class == SizeLarge, 10, 7) + max(0, s.H-34)/8
	return min(most, 3+max(1, e.segs)+Pick(e.note > e.table.Room(w-4), 1, 0))
}

// measuredColumns are all columns except those of the knobs, which stand after the first one here.
// Of the columns that a narrow table leaves out, the interval (95% CI) goes last. The knobs'
// columns may go earlier, because the note under the table says which knobs changed.
var measuredColumns = []canvas.Column[experiment]{
	{Title: "#", W: 4, Cell: func(p *canvas.Pen, e *experiment) {
		switch {
		case e.baseline:
			p.Text(canvas.Key, "A")
		case e.current:
			p.Rune(canvas.Running, p.Glyphs().Play)
		default:
			p.Space(1)
		}
		if e.asked != nil {
			p.Text(canvas.Normal, askedMarks[e.asked.Kind])
			return
		}
		p.Text(canvas.Dim, "#").Int(canvas.Normal, int64(e.Segment.Index))
	}},
	{Title: "samples/s", W: 9, Cell: measured(func(p *canvas.Pen, e *experiment) {
		p.Bytes(canvas.Bold, units.AppendRate(p.Buf(), e.rate))
	})},
	{Title: "mean", W: 6, Drop: 4, Cell: measured(func(p *canvas.Pen, e *experiment) {
		p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), e.mean))
	})},
	{Title: "p50", W: 6, Drop: 7, Cell: measured(func(p *canvas.Pen, e *experiment) {
		if e.p50 == 0 {
			p.Text(canvas.Dim, "-")
			return
		}
		p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), e.p50))
	})},
	{Title: "p95", W: 6, Drop: 8, Cell: measured(func(p *canvas.Pen, e *experiment) {
		if e.p95 == 0 {
			p.Text(canvas.Dim, "-")
			return
		}
		p.Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), e.p95))
	})},
	{Title: "util", W: 5, Drop: 3, Cell: measured(func(p *canvas.Pen, e *experiment) {
		p.Bytes(utilStyle(e.util, e.starved), units.Narrow.AppendPercent(p.Buf(), e.util))
	})},
	{Title: "stall", W: 5, Drop: 10, Cell: measured(func(p *canvas.Pen, e *experiment) {
		p.Bytes(StallStyle(1-e.util), units.Narrow.AppendPercent(p.Buf(), 1-e.util))
	})},
	{Title: "vs A", W: 7, Cell: func(p *canvas.Pen, e *experiment) {
		c := &e.VsA.Throughput
		_, certain := c.Early()
		switch {
		case e.baseline:
			p.Text(canvas.Dim, "is A")
		case !e.compared():
			p.Text(canvas.Dim, "-")
		case e.again && c.Answer != stats.Different:
			p.Text(canvas.Dim, "as A")
		case e.again:
			p.Bytes(canvas.Dim, units.Narrow.AppendGain(p.Buf(), c.Estimate()))
		case c.Answer == stats.Unknown && certain:
			p.Text(gainStyle(c.Ratio), Pick(c.Ratio > 1, "faster", "slower"))
		case c.Answer == stats.Unknown:
			p.Text(canvas.Dim, "not yet")
		case c.Answer == stats.Same:
			p.Text(canvas.Dim, "same")
		default:
			p.Bytes(gainStyle(c.Ratio), units.Narrow.AppendGain(p.Buf(), c.Estimate()))
		}
	}},
	{Title: "95% CI", W: 17, Drop: 1, Cell: func(p *canvas.Pen, e *experiment) {
		switch c := &e.VsA.Throughput; {
		case e.baseline, !e.compared(), e.again && c.Answer == stats.Unknown:
			p.Text(canvas.Dim, "-")
			return
		case !c.Tells():
			p.Text(canvas.Dim, e.missing)
			return
		}
		p.Bytes(canvas.Normal, units.Narrow.AppendGainRange(p.Buf(), e.VsA.Throughput.Estimate()))
	}},
	{Title: "steps (skipped)", W: 15, Drop: 5, Cell: func(p *canvas.Pen, e *experiment) {
		p.Bytes(canvas.Normal, units.AppendCount(p.Buf(), e.Steps)).Text(canvas.Dim, " (").
			Bytes(canvas.Dim, units.AppendCount(p.Buf(), e.Excluded)).Text(canvas.Dim, ")")
	}},
	{Title: "note", W: 14, Most: canvas.Stretch, Drop: 3, Cell: func(p *canvas.Pen, e *experiment) {
		writeReason(p, e.note)
	}},
}

// compared reports whether a row is compared with A, or will be. A tune may end without an
// interval, if it measured the two only at times far apart.
func (e *experiment) compared() bool {
	x := e.asked
	return x == nil || x.FromA && (x.Kind != trace.Tune || x.Running() || e.VsA.Throughput.Answer != stats.Unknown)
}

// shortTitles are the titles of knobs with long names.
var shortTitles = map[string]string{
	"num_workers": "workers", "prefetch_factor": "prefetch", "pin_memory": "pin", "persistent_workers": "persistent",
	"batch_size": "batch", "device_transforms": "on device", "gradient_accumulation": "accumulate", "checkpointing": "checkpoint",
}

// Update takes what the analysis found. The specs give the order of the knobs.
func (e *Experiments) Update(specs []knob.Spec, r *Analysis) {
	e.segs, e.note = len(r.Segs)+len(r.Asked), 0
	for _, note := range r.Notes {
		e.note = max(e.note, noteWidth(note))
	}
	var settings [][]knob.Setting
	for _, of := range [][]attribution.SegmentStats{r.Segs, r.Asked} {
		for i := range of {
			if of[i].Segment.Knobs != nil {
				settings = append(settings, of[i].Segment.Knobs)
			}
		}
	}
	for i := range r.Asked {
		e.note = max(e.note, noteWidth(r.Asked[i].Segment.Reason))
	}
	e.knobColumns(specs, settings)
}

// knobColumns makes one column for each knob that changed, in the order of the specs and as wide
// as its values.
func (e *Experiments) knobColumns(specs []knob.Spec, settings [][]knob.Setting) {
	const most = 12
	columns := slices.Clone(measuredColumns[:1])
	for i := range specs {
		name := specs[i].Name
		title, ok := shortTitles[name]
		if !ok {
			title = name
		}
		w, changed := len(title), false
		for _, knobs := range settings {
			v := knob.ValueOf(knobs, name)
			changed = changed || v != knob.ValueOf(settings[0], name)
			w = max(w, len(v))
		}
		if changed {
			columns = append(columns, canvas.Column[experiment]{Title: title, W: min(w, most), Drop: 2 * len(columns), Cell: knobCell(name)})
		}
	}
	e.table.Columns = append(columns, measuredColumns[1:]...)
}

// knobCell writes a knob's value.
func knobCell(name string) func(*canvas.Pen, *experiment) {
	return func(p *canvas.Pen, e *experiment) {
		v := knob.ValueOf(e.Segment.Knobs, name)
		switch v {
		case "":
			v = "-"
		case "true":
			v = "on"
		case "false":
			v = "off"
		}
		p.Text(canvas.Normal, v)
	}
}

// measured makes a cell that shows a dash while the segment has no steps.
func measured(cell func(*canvas.Pen, *experiment)) func(*canvas.Pen, *experiment) {
	return func(p *canvas.Pen, e *experiment) {
		if e.steps == 0 {
			p.Text(canvas.Dim, "-")
			return
		}
		cell(p, e)
	}
}

// Draw draws the table, and under it what the selected row's columns have no room for. The
// baseline stays in view as the first row.
func (e *Experiments) Draw(v *View, r canvas.Rectangle) {
	live := Pick(v.Replay || v.Frozen || v.Live.Outcome.Ended != 0, "", "; last row live")
	if about := "one row per setting" + live + " "; len(about) <= v.Head.Left() {
		v.Head.Text(canvas.Dim, about)
	}
	in := r.Indent()
	if in.Empty() {
		return
	}
	e.fill(v)
	e.table.Lit = v.Focused
	rows := in
	if n := len(e.rows); n > 0 {
		room := e.table.Room(in.W)
		if room == 0 && in.H >= 4 || noteWidth(e.rows[e.table.Cursor].note) > room && in.H > n+1 {
			rows.H--
			e.drawNote(v.C, canvas.Rect(in.X, in.Y+rows.H, in.W, 1), &e.rows[e.table.Cursor])
		}
	}
	e.table.Draw(v.C, rows, e.rows)
	if len(e.rows) == 0 {
		v.C.Text(in.X, in.Y+1, in.W, canvas.Dim, "nothing measured yet")
	}
}

// fill makes the rows from the analysis: one for each segment, and one for each experiment, at the
// place where it began.
func (e *Experiments) fill(v *View) {
	e.rows = e.rows[:0]
	e.table.Pinned = -1
	xs, next, base := v.Analysis.Told.Experiments, 0, v.Analysis.base()
	for i := range v.Analysis.Segs {
		s := &v.Analysis.Segs[i]
		for ; next < len(xs) && xs[next].First <= s.Segment.Index; next++ {
			e.rows = append(e.rows, askedRow(v, next))
		}
		row := experiment{
			again: base != nil && len(s.Segment.Knobs) > 0 && slices.Equal(s.Segment.Knobs, base.Segment.Knobs), SegmentStats: s, rate: s.SamplesPerSecond, p50: int64(s.P50), p95: int64(s.P95), util: s.Utilisation,
			starved: v.Analysis.Starved[i], steps: int64(s.Steps), missing: v.Analysis.Missing[i], note: v.Analysis.Notes[i],
			baseline: s.Baseline, current: v.Pic.HasSegment && s.Segment.Index == v.Pic.Segment.Index,
		}
		if row.steps > 0 {
			row.mean = s.Wall / row.steps
		}
		if row.baseline {
			e.table.Pinned = len(e.rows)
		}
		e.rows = append(e.rows, row)
	}
	for ; next < len(xs); next++ {
		e.rows = append(e.rows, askedRow(v, next))
	}
	e.table.Cursor = e.selected(len(e.rows))
}

// askedRow returns the row of experiment number i: what it measured of B.
func askedRow(v *View, i int) experiment {
	x := &v.Analysis.Told.Experiments[i]
	b := &x.Sides[1]
	row := experiment{
		SegmentStats: &v.Analysis.Asked[i], asked: x, note: v.Analysis.Asked[i].Segment.Reason, rate: x.Rates()[1], util: b.Utilisation(), steps: b.Steps,
		missing: v.Analysis.Unasked[i], current: v.Pic.HasSegment && x.Has(v.Pic.Segment.Index),
	}
	if b.Steps > 0 {
		row.mean = b.Active / b.Steps
	}
	return row
}

// selected returns the selected row among n, -1 where there is none.
func (e *Experiments) selected(n int) int {
	if e.sel < 0 || e.sel >= n {
		return n - 1
	}
	return e.sel
}

// move selects another row. Once the last row is selected, so is each newer one.
func (e *Experiments) move(d, n int) {
	if n == 0 {
		return
	}
	if e.sel = max(0, e.selected(n)+d); e.sel >= n-1 && d > 0 {
		e.sel = -1
	}
}

func (e *Experiments) drawNote(c *canvas.Canvas, r canvas.Rectangle, s *experiment) {
	p := c.Pen(r.X, r.Y, r.W)
	if s.asked == nil {
		p.Text(canvas.Dim, "#").Int(canvas.Dim, int64(s.Segment.Index)).Space(1)
	}
	writeReason(&p, s.note)
	p.Text(canvas.Dim, ", ").Bytes(canvas.Normal, units.AppendCount(p.Buf(), s.Steps)).
		Text(canvas.Dim, Pick(s.Steps == 1, " step", " steps"))
}

// arrowText is the arrow in the text of a segment's reason, for which the screen shows a glyph.
const arrowText = " -> "

// writeReason writes a segment's reason with the glyph of an arrow.
func writeReason(p *canvas.Pen, s string) {
	for {
		before, after, found := strings.Cut(s, arrowText)
		p.Text(canvas.Normal, before)
		if !found {
			return
		}
		p.Rune(canvas.Normal, p.Glyphs().Arrow)
		s = after
	}
}
