package panel

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/tui/canvas"
)

// Draw draws the knobs under the headings of their groups, and some lines about the selected one.
func (k *Knobs) Draw(v *View, r canvas.Rectangle) {
	if r.Empty() {
		return
	}
	if len(k.specs) == 0 {
		v.C.Text(r.X+1, r.Y, r.W-2, canvas.Dim, "no knobs: the trace names none")
		return
	}
	foot := 0
	switch {
	case r.H >= 24:
		foot = knobFoot
	case r.H >= 14:
		foot = knobFoot - 1
	case r.H >= 8:
		foot = 2
	case r.H >= 4 && k.remark(): // any other text would be cut here, and a knob is more useful
		foot = 1
	}
	if k.risk.Text != "" { // make room for all of it
		foot = max(foot, r.H-k.lines(), min(3, r.H-1))
	}
	body := canvas.Rect(r.X, r.Y, r.W, r.H-foot)
	k.drawRows(v, body)
	k.drawFoot(v, canvas.Rect(r.X, r.Y+body.H, r.W, foot))
}

// remark reports whether something is staged or the selected knob has no effect.
func (k *Knobs) remark() bool {
	s := k.Selected()
	return len(k.staged) > 0 || s != nil && s.NoEffect != ""
}

// knobFoot is the most lines about the selected knob.
const knobFoot = 5

// wants returns the height at which the panel shows every knob.
func (k *Knobs) wants() int {
	if len(k.specs) == 0 {
		return LeastRows
	}
	return k.lines() + knobFoot + 2
}

// lines returns how many lines the knobs take, with the headings of their groups.
func (k *Knobs) lines() int {
	n, group := len(k.specs), ""
	for i := range k.specs {
		if g := k.specs[i].Group; g != group {
			n, group = n+1, g
		}
	}
	return n
}

// knobRow is a row of the panel: a knob, or the heading of a group of them.
type knobRow struct {
	*knob.Spec // nil in a heading
	heading    string
	first      bool // it is the first heading, which has the titles of the columns at the right

	value     string // in force
	state     knobState
	change    string              // the value that is staged or requested
	effect    Effect              // of its last change, where measured
	measured  bool                // there is an effect
	predicted *predict.Prediction // as foreseen returned it
	selected  bool
	focused   bool
	editable  bool
	typed     *Prompt // the value is being typed
}

// knobColumns are the columns of the table. A wide table has the help of each knob too.
var knobColumns = []canvas.Column[knobRow]{
	{Cell: knobNameCell},
	{Cell: knobValueCell},
	{Cell: func(p *canvas.Pen, r *knobRow) {
		if r.Spec != nil {
			p.Text(canvas.Dim, r.Help)
		}
	}, Shown: func() bool { return false }},
}

// drawRows draws as many knobs as there is room for.
func (k *Knobs) drawRows(v *View, r canvas.Rectangle) {
	k.rows = k.rows[:0]
	group := ""
	for i := range k.specs {
		if g := k.specs[i].Group; g != group {
			k.rows = append(k.rows, knobRow{heading: g, first: group == ""})
			group = g
		}
		if i == k.sel {
			k.table.Cursor = Pick(i == 0 && r.H > 1, 0, len(k.rows)) // the first one with its heading
		}
		k.rows = append(k.rows, k.rowOf(v, i))
	}
	k.drawTable(v, r)
}

// drawSelected draws the selected knob alone.
func (k *Knobs) drawSelected(v *View, r canvas.Rectangle) {
	k.rows, k.table.Cursor = append(k.rows[:0], k.rowOf(v, k.sel)), 0
	k.drawTable(v, r)
}

// drawTable draws the rows. The column of the names is as wide as the longest one, if it can be.
func (k *Knobs) drawTable(v *View, r canvas.Rectangle) {
	name, value, help := &k.table.Columns[0], &k.table.Columns[1], &k.table.Columns[2]
	longest := 0
	for i := range k.specs {
		longest = max(longest, len(k.specs[i].Name))
	}
	name.W = min(longest+2, max(11, r.W-13))
	value.W, value.Most, help.Most = 8, canvas.Stretch, 0
	if r.W >= 100 {
		value.W, value.Most, help.W, help.Most = 33, 0, 10, canvas.Stretch
	}
	k.table.Draw(v.C, r, k.rows)
}

// rowOf returns the row of a knob.
func (k *Knobs) rowOf(v *View, i int) knobRow {
	s := &k.specs[i]
	r := knobRow{Spec: s, value: v.Pic.value(s.Name), state: k.state(s.Name, v.Live.Now), selected: i == k.sel}
	r.focused, r.editable = r.selected && v.Focused, r.selected && v.CanSet && v.Focused
	if k.looks != nil && s.Name == looksName {
		r.value = k.looks.Looks()
	}
	switch r.state {
	case knobStaged:
		r.change = k.staged[s.Name]
	case knobRequested:
		r.change = k.requested[s.Name]
	}
	r.effect, r.measured = v.Analysis.Effects[s.Name]
	r.predicted = k.foreseen(v, s.Name)
	if r.selected {
		r.typed = k.typed
	}
	return r
}

// foreseen returns the prediction for a knob. If nothing is staged or requested, it is that of
// Analysis.foreseen. If only this knob is staged, it is about the staged value. Otherwise it is
// nil.
func (k *Knobs) foreseen(v *View, name string) *predict.Prediction {
	f := &v.Analysis.Foresight
	value, staged := k.staged[name]
	if !staged {
		if len(k.staged) > 0 || len(k.requested) > 0 {
			return nil
		}
		return v.Analysis.foreseen(name)
	}
	if c := f.Staged.Changes; len(c) == 1 && len(k.staged) == 1 && c[0].Name == name && sameValue(c[0].Value, value) {
		return &f.Staged
	}
	return nil
}

func knobNameCell(p *canvas.Pen, r *knobRow) {
	if r.Spec == nil {
		p.Space(1).Text(canvas.Dim, r.heading)
		return
	}
	st := canvas.Normal
	switch {
	case r.NoEffect != "":
		st = canvas.Dim
	case r.focused:
		st = canvas.Bold
	}
	if r.selected {
		p.Rune(Pick(r.focused, canvas.Key, canvas.Bold), p.Glyphs().Mark).Space(1)
	} else {
		p.Space(2)
	}
	p.Text(st, r.Name)
}

// knobValueCell writes the value in force and a change that is under way. At the right it writes
// what is predicted and what the last change did.
func knobValueCell(p *canvas.Pen, r *knobRow) {
	both := p.Limit - measuredCols - len("predicted") // where predicted begins, if there is room for two columns
	narrow := both < p.X
	switch {
	case r.Spec == nil:
		if r.first {
			if !narrow {
				p.To(both).Text(canvas.Dim, "predicted")
				atRight(p, canvas.Dim, "measured")
			} else {
				atRight(p, canvas.Dim, "gain") // measured, or else predicted
			}
		}
		return
	case r.typed != nil:
		p.Rune(canvas.Key, p.Glyphs().Mark).Text(canvas.Selected, r.typed.Text).Text(canvas.Cursor, " ")
		return
	}
	if r.editable {
		p.Rune(canvas.Key, p.Glyphs().Left)
	} else {
		p.Space(1)
	}
	st := Pick(r.NoEffect == "", canvas.Bold, canvas.Dim)
	switch {
	case r.value == "":
		p.Text(canvas.Dim, "-")
	case r.Type == "bool":
		p.Text(st, Pick(knob.On(r.value), "[x] on", "[ ] off"))
	default:
		p.Text(st, r.value)
	}
	if r.editable {
		p.Rune(canvas.Key, p.Glyphs().Right)
	}
	p.Space(1)
	r.writeState(p)
	r.writePredicted(p, narrow)
	r.writeEffect(p)
}

// measuredCols is the width of the last change's effect at the right, with the gap before it.
const measuredCols = len(" measured")

// writePredicted writes the range of the prediction, if there is room. It names the value, because
// the effect beside it was measured for another change. If there is no room for both, the prediction
// is written only if there is no measured effect.
func (r *knobRow) writePredicted(p *canvas.Pen, narrow bool) {
	if r.predicted == nil {
		return
	}
	b := appendForeseen(p.Buf(), r.predicted, units.Narrow)
	at := p.Limit - measuredCols - utf8.RuneCount(b)
	if narrow && !r.measured {
		at += measuredCols
	}
	if at < p.X {
		return
	}
	if value := r.predicted.Changes[0].Value; r.state != knobStaged && at-len(value)-1 >= p.X {
		p.To(at-len(value)-1).Text(canvas.Normal, value).Text(canvas.Dim, ":")
	}
	p.To(at).Bytes(Pick(r.state == knobStaged, canvas.Staged, canvas.Dim), b)
}

// appendForeseen writes the measured gain of a change, if there is one. Otherwise it writes the range of the
// prediction, or a word if it expects no change or tells no size.
func appendForeseen(b []byte, n *predict.Prediction, form units.Form) []byte {
	switch {
	case n.Known != nil && n.Known.Answer == stats.Same, n.Known == nil && predict.Same(n.Prediction):
		return append(b, "same"...)
	case n.Known != nil:
		return form.AppendGain(b, n.Known.Estimate())
	case predict.Vague(n.Prediction) && predict.Faster(n.Prediction):
		return append(b, "faster"...)
	case predict.Vague(n.Prediction):
		return append(b, "not now"...) // as predict.Untold, under "predicted"
	}
	return form.AppendGainRange(b, predict.Gain(n.Prediction))
}

// writeState writes how far a change is, or that the knob has no effect.
func (r *knobRow) writeState(p *canvas.Pen) {
	word := func(st canvas.Style, s string) { // written only in full
		if canvas.Width(s) <= p.Left() {
			p.Text(st, s)
		}
	}
	switch r.state {
	case knobStaged:
		p.Rune(canvas.Staged, p.Glyphs().Arrow).Text(canvas.Staged, r.change)
		word(canvas.Staged, " staged")
	case knobRequested:
		p.Rune(canvas.Warn, p.Glyphs().Arrow).Text(canvas.Warn, r.change)
		word(canvas.Warn, " requested")
	case knobConfirmed, knobFading:
		st := Pick(r.state == knobConfirmed, canvas.Confirmed, canvas.Dim)
		p.Rune(st, p.Glyphs().Tick)
		word(st, " confirmed")
	default:
		if r.NoEffect != "" {
			word(canvas.Dim, "n/a here")
		}
	}
}

// writeEffect writes at the right what the knob's last change did to the throughput, or why that is
// not known yet. It writes nothing where there is no room.
func (r *knobRow) writeEffect(p *canvas.Pen) {
	if !r.measured {
		return
	}
	st, text := canvas.Dim, "not yet"
	switch e := &r.effect; {
	case e.Answer == stats.Different:
		st, text = Pick(e.Ratio < 1, canvas.Bad, canvas.Good), string(units.Narrow.AppendGain(p.Buf(), e.Estimate()))
	case e.Answer == stats.Same:
		text = "same"
	case canvas.Width(e.Missing) < p.Left():
		text = e.Missing
	}
	if canvas.Width(text) < p.Left() {
		atRight(p, st, text)
	}
}

// atRight writes s so that it ends at the pen's limit.
func atRight(p *canvas.Pen, st canvas.Style, s string) { p.To(p.Limit-canvas.Width(s)).Text(st, s) }

// drawFoot draws the lines about the selected knob: what enter would do or what the last change
// cost, what the knob is, its values and when they take effect. It draws the first of these that
// have room.
func (k *Knobs) drawFoot(v *View, r canvas.Rectangle) {
	s := k.Selected()
	if r.H == 0 || s == nil {
		return
	}
	at := func(row int) canvas.Pen { return v.C.Pen(r.X+1, r.Y+row, r.W-2) }
	row := 0
	tall := r.H >= 4
	if n := len(k.staged); n > 0 {
		p := at(row)
		p.Text(canvas.Staged, strconv.Itoa(n)).Text(canvas.Staged, " staged  ").Text(canvas.Key, "enter").Text(canvas.Normal, " apply  ")
		row++
		risky := k.risk.Text != ""
		if !risky || row < r.H {
			p.Text(canvas.Key, "esc").Text(canvas.Normal, " drop")
		}
		style := Pick(k.risk.Grave, canvas.Bad, canvas.Warn)
		switch {
		case risky && row < r.H:
			row += drawNote(v, canvas.Rect(r.X, r.Y+row, r.W, r.H-row), style, "risk: ", k.risk.Text)
		case risky:
			p.Text(style, "risk: ").Text(canvas.Normal, k.risk.Text)
		}
	} else if changed := v.Pic.HasSegment && v.Pic.Segment.Index > 0; changed && (tall || r.H == 2) {
		p := at(r.H - 1)
		k.drawChange(v, &p)
		r.H--
	}
	if row < r.H && (row == 0 || tall) {
		row += k.drawHelp(v, canvas.Rect(r.X, r.Y+row, r.W, r.H-row))
	}
	if row < r.H {
		p := at(row)
		p.Text(canvas.Dim, knob.Range(s)).Text(canvas.Dim, "  applied at the ").Text(canvas.Dim, s.Applied)
		row++
	}
	if e, ok := v.Analysis.Effects[s.Name]; ok && row < r.H {
		p := at(row)
		p.Text(canvas.Dim, "measured: ")
		writeReason(&p, e.Of)
		p.Space(1).Text(canvas.Normal, e.Says)
		row++
	}
	if text := k.foretold(&v.Analysis.Foresight, s.Name); text != "" && row < r.H {
		drawNote(v, canvas.Rect(r.X, r.Y+row, r.W, r.H-row), canvas.Dim, "predicted: ", text)
	}
}

// foretold returns the prediction for all staged values. If nothing is staged, it returns the
// predictions for the values next to the knob's own and for the advised value.
func (k *Knobs) foretold(f *Foresight, name string) string {
	var b []byte
	vague := false // said once why
	add := func(n *predict.Prediction) {
		untold := n.Known == nil && predict.Vague(n.Prediction)
		switch {
		case untold && !vague:
			b = append(b, predict.Words(n.Prediction)...)
		case untold:
			b = append(b, "not now"...)
		default:
			b = appendForeseen(b, n, units.Prose)
		}
		vague = vague || untold
		switch {
		case n.Known != nil:
			b = append(b, " measured"...)
		case predict.Same(n.Prediction):
			b = units.Prose.AppendGainRange(append(b, ", "...), predict.Gain(n.Prediction))
		}
	}
	if len(k.staged) > 0 {
		if f.Staged.Made() && slices.Equal(f.Staged.Changes, k.Changes()) {
			add(&f.Staged)
		}
		return string(b)
	}
	for i := range f.Predicted {
		n := &f.Predicted[i]
		if n.Changes[0].Name != name {
			continue
		}
		if len(b) > 0 {
			b = append(b, Pick(vague, "; ", ", ")...)
		}
		b = append(append(b, n.Changes[0].Value...), ' ')
		add(n)
	}
	return string(b)
}

// drawHelp draws what the selected knob is. It leaves one line free if it can. It returns the
// lines used.
func (k *Knobs) drawHelp(v *View, r canvas.Rectangle) int {
	s := k.Selected()
	head, text := "", s.Help
	switch {
	case s.NoEffect != "":
		head, text = "n/a here: ", s.NoEffect
		if s.Hint != "" {
			text += "; " + s.Hint
		}
	case s.Bound != "":
		head, text = "at most "+strconv.Itoa(s.Max)+": ", s.Bound
	case s.DefaultHere != "":
		text = "default on this device " + s.DefaultHere + "; " + text
	}
	return drawNote(v, canvas.Rect(r.X, r.Y, r.W, max(1, r.H-1)), canvas.Warn, head, text)
}

// drawNote draws head in a style and then the text, in as many lines as it needs and r has. It
// returns the lines used.
func drawNote(v *View, r canvas.Rectangle, style canvas.Style, head, text string) int {
	p := v.C.Pen(r.X+1, r.Y, r.W-2)
	room := p.Left()
	p.Text(style, head)
	if r.H < 2 || canvas.Width(head+text) <= room {
		p.Text(canvas.Normal, text)
		return 1
	}
	lines := canvas.Wrap(head+text, room)
	lines = lines[:min(len(lines), r.H)]
	for i, line := range lines {
		q := v.C.Pen(r.X+1, r.Y+i, r.W-2)
		if i == 0 && strings.HasPrefix(line, head) {
			q.Text(style, head)
			line = line[len(head):]
		}
		q.Text(canvas.Normal, line)
	}
	return len(lines)
}

// drawChange writes what the newest configuration changed, and what the transition cost.
func (k *Knobs) drawChange(v *View, p *canvas.Pen) {
	seg := &v.Pic.Segment
	p.Text(canvas.Dim, "#").Int(canvas.Dim, int64(seg.Index)).Space(1)
	if cost, known := v.Analysis.cost(seg.Index); known && seg.TransitionSteps > 0 {
		p.Text(canvas.Dim, "cost ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), cost)).Text(canvas.Dim, " in ").
			Int(canvas.Normal, int64(seg.TransitionSteps)).Text(canvas.Dim, Pick(seg.TransitionSteps == 1, " step: ", " steps: "))
	}
	writeReason(p, seg.Reason)
}
