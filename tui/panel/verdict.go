package panel

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// classStyle returns the colour of a verdict's class.
func classStyle(v *advice.Verdict) canvas.Style {
	switch {
	case v.Moderate || v.Group == trace.GroupUnknown:
		return canvas.WarnBold
	case v.Class == advice.NotEnoughSteps, v.Class == "":
		return canvas.Dim
	case v.Group == trace.GroupNone:
		return canvas.GoodBold
	}
	return canvas.BadBold
}

// Verdict is the first panel. It says in full what the device waits for, how that is known
// and what to try.
type Verdict struct {
	Card
	width   int // the text is broken into lines of this width
	text    string
	finding advice.Finding
	asked   string // the experiment under way or the last one, and its answer
	class   string // of the verdict, in capitals, at the beginning of the first line
	whole   []verdictRow
	lines   []verdictRow // the first line of whole for the verdict, for what to do and for why, and all lines of an answer
	answers int          // how many of the lines at the end are about asked

	besideWidth int        // besideText is broken into lines of this width
	besideText  []string   // Analysis.Beside
	beside      [][]string // the lines of each text

	tall lines // the height of the panel
}

// NewVerdict makes the panel. Its key stages the advice of an in the panel of the knobs.
func NewVerdict(an *Analysis, k *Knobs) *Verdict {
	return &Verdict{Card: Card{Key: "3", Name: "verdict", Title: "Verdict", Small: true, Keys: []Binding{
		{Keys: "enter", Hint: "stage the advice", Help: "stage what it advises", Live: true,
			When: func() bool { return an.Told.First().Value != "" },
			Do:   func(string) tea.Cmd { k.stageAdvice(an.Told.First()); return nil }},
	}}}
}

// Place asks for the rows that Rows returned.
func (*Verdict) Place(s Space) Place { return Place{Band: verdictBand, Rows: s.Verdict} }

// verdictRow is a line of the verdict.
type verdictRow struct {
	label string // before the text, dim
	text  string
	aside string // after the text, dim
	cut   bool   // the text goes on
	brief bool   // the text is a shorter one and stays whole
	fills bool   // the text says what matters at its very end
}

// The lines of what to do and why begin with a label, or are indented by its width.
const (
	nextLabel     = "Next "
	whyLabel      = "Why  "
	verdictIndent = len(nextLabel)
)

// These tell the key that stages the advice. Where they have no room, test is left out: the clause that an A/B test would tell the gain.
const (
	pressFirst = "  press "
	test       = "; an A/B test"
)

// pressKeys returns what is pressed after the panel's key: to set the value, or to test it.
func pressKeys(f *advice.Finding) string { return Pick(f.Tests(), " enter A", " enter enter") }

// gainUnknown is shown where the gain of the advice cannot be predicted.
const gainUnknown = "expected gain: not known"

// Loosen lets the panel become less tall at once.
func (vd *Verdict) Loosen() { vd.tall.loosen() }

// Rows returns the height of the panel: what the text needs, as long as the panels below can
// show something.
func (vd *Verdict) Rows(an *Analysis, s Space) int {
	vd.wrap(&an.Told, s.W-4)
	below := 11
	switch {
	case s.Story > 0: // below the story: gauges, the STALL lane that it tells of, the knobs
		below = max(below, s.Story+gaugeRows(s)+2*LeastRows)
	case s.Class == SizeCompact: // gauges, the lanes compute and STALL, some knobs
		below = gaugeRows(s) + 4 + compactKnobs
	}
	return min(vd.tall.n+2, max(LeastRows, s.H-below))
}

// narrowVerdict is the width below which a sentence of a verdict has too little room.
const narrowVerdict = 58

// DrawShort draws the verdict's lines without a box, as many as fit, and returns how many those are.
func (vd *Verdict) DrawShort(v *View, r canvas.Rectangle) int {
	a := &v.Analysis.Told
	if a.Verdict.Class == "" {
		v.C.Text(r.X, r.Y, r.W, canvas.Dim, "no verdict yet")
		return 1
	}
	vd.wrap(a, r.W)
	if r.W >= narrowVerdict || a.Verdict.Group == trace.GroupNone && a.Verdict.Brief.At == "" {
		return vd.drawLines(v, r, vd.lines)
	}
	drawNarrow(v, &a.Verdict, r)
	if r.H == 1 {
		return 1
	}
	return 1 + vd.drawMore(v, canvas.Rect(r.X, r.Y+1, r.W, r.H-1), vd.lines[1:], false)
}

// drawNarrow draws the verdict in one short line: the class, its share, and the largest cause or the line of code. What has no
// room is left out, the line of code last.
func drawNarrow(v *View, of *advice.Verdict, r canvas.Rectangle) {
	class, cause, at := strings.ToUpper(of.Class), of.Dominant.String(), of.Brief.At
	share := units.Narrow.Percent(of.Share)
	if of.Group == trace.GroupNone || at != "" && !of.Brief.Line {
		cause = ""
	}
	fits := func() bool { return canvas.Width(strings.Join([]string{class, share, cause, at}, " ")) <= r.W }
	if !fits() && at != "" {
		cause = ""
	}
	if !fits() {
		class = strings.TrimPrefix(strings.TrimSuffix(class, "-BOUND"), "MODERATELY ")
	}
	if !fits() && of.Brief.Line {
		share = ""
	}
	p := v.C.Pen(r.X, r.Y, r.W)
	p.Text(classStyle(of), class)
	if share != "" {
		p.Space(1).Text(Pick(of.Group == trace.GroupNone, canvas.Bold, StallStyle(of.Share)), share)
	}
	for _, word := range [...]string{cause, at} {
		if word != "" {
			p.Text(canvas.Dim, " ").Text(canvas.Normal, word)
		}
	}
}

// Draw draws the text. If the panel has the whole body, it also draws what else is known and the
// notes.
func (vd *Verdict) Draw(v *View, r canvas.Rectangle) {
	if v.Analysis.Held != "" {
		v.Head.Text(canvas.Dim, v.Analysis.Held)
	} else {
		v.Win.write(&v.Head)
	}
	in := r.Indent()
	if in.Empty() {
		return
	}
	if v.Analysis.Told.Verdict.Class == "" {
		v.C.Text(in.X, in.Y, in.W, canvas.Dim, "no verdict yet: it needs some steps")
		return
	}
	vd.wrap(&v.Analysis.Told, in.W)
	y := in.Y + vd.drawLines(v, in, Pick(v.Expanded, vd.whole, vd.lines))
	if v.Expanded && in.H > 12 {
		y = vd.drawBeside(v, in, y)
		v.C.Rule(in, y+1)
		DrawNotes(v.C, canvas.Rect(in.X-1, y+2, in.W, in.Y+in.H-y-2), &v.Pic.Snap, 0)
	}
}

// drawBeside draws Analysis.Beside below y, and returns the last row that it used.
func (vd *Verdict) drawBeside(v *View, in canvas.Rectangle, y int) int {
	if texts := v.Analysis.Beside; vd.besideWidth != in.W || !slices.Equal(vd.besideText, texts) {
		vd.besideWidth, vd.besideText, vd.beside = in.W, texts, nil
		for _, text := range texts {
			vd.beside = append(vd.beside, wrapWords(text, in.W))
		}
	}
	for _, lines := range vd.beside {
		if y+1+len(lines) > in.Y+in.H-6 { // leave some rows for the notes
			continue
		}
		for _, line := range lines {
			v.C.Text(in.X, y+1, in.W, canvas.Normal, line)
			y++
		}
	}
	return y
}

// verdictRest ends a verdict that is cut. It names the keys that show the rest.
const verdictRest = " ~ 3 f shows all"

// drawLines draws the text and returns how many lines it has. If lines must be left out, the answer of
// an experiment keeps its lines, because the user waits for it.
func (vd *Verdict) drawLines(v *View, r canvas.Rectangle, lines []verdictRow) int {
	return vd.drawMore(v, r, lines, true)
}

// drawMore is drawLines for lines of which the first one begins with the class, or for those below it.
func (vd *Verdict) drawMore(v *View, r canvas.Rectangle, lines []verdictRow, class bool) int {
	n := min(len(lines), r.H)
	cut := n // the line before which some are missing
	if n < len(lines) {
		cut = max(min(n, 2), n-vd.answers)
	}
	at := func(i int) *verdictRow {
		if i >= cut {
			i += len(lines) - vd.answers - cut
		}
		return &lines[i]
	}
	last := -1 // the last line that does not say all
	for i := range n {
		if at(i).cut || i == cut-1 && n < len(lines) {
			last = i
		}
	}
	for i := range n {
		line, text := at(i), at(i).text
		p := v.C.Pen(r.X, r.Y+i, r.W)
		if i == 0 && class {
			p.Text(classStyle(&v.Analysis.Told.Verdict), vd.class)
			text = text[len(vd.class):]
		}
		p.Text(canvas.Dim, line.label)
		if line.brief || !line.cut && i != last {
			say(&p, text)
			p.Text(canvas.Dim, line.aside)
			if line.brief {
				rest := Pick(i != last || v.Expanded, " ~", verdictRest)
				p.Whole(func(p *canvas.Pen) { p.Text(canvas.Key, rest) })
			}
			if f := v.Analysis.Told.First(); line.label == nextLabel && f.Value != "" && v.CanSet && v.Analysis.Held == "" {
				keys := vd.Key + pressKeys(&f)
				p.Whole(func(p *canvas.Pen) { p.Text(canvas.Dim, pressFirst).Text(canvas.Key, keys) })
			}
			continue
		}
		rest := Pick(i != last || line.fills || v.Expanded || r.W < narrowVerdict, " ~", verdictRest)
		for canvas.Width(text)+len(rest) > p.Left() && strings.Contains(text, " ") {
			text = text[:strings.LastIndex(text, " ")]
		}
		say(&p, text)
		p.Text(canvas.Key, rest)
	}
	return n
}

// say writes a text, its numbers bold.
func say(p *canvas.Pen, text string) {
	for text != "" {
		word, rest, more := strings.Cut(text, " ")
		st := canvas.Normal
		if strings.ContainsAny(word, "0123456789%") {
			st = canvas.Bold
		}
		if p.Text(st, word); more {
			p.Space(1)
		}
		text = rest
	}
}

// wrapWords breaks s into lines, but not between a number and its unit.
func wrapWords(s string, w int) []string {
	lines := canvas.Wrap(units.Bind(s), w)
	for i := range lines {
		lines[i] = units.Unbind(lines[i])
	}
	return lines
}

// wrap breaks the verdict's text into lines, once per text and width: the verdict, what to do, and why.
func (vd *Verdict) wrap(a *advice.Advice, w int) {
	v, f := &a.Verdict, a.First()
	if vd.width == w && vd.text == v.Text && vd.finding == f && vd.asked == a.Asked {
		return
	}
	if vd.width != w {
		vd.tall.loosen()
	}
	vd.width, vd.text, vd.finding, vd.asked = w, v.Text, f, a.Asked
	// The class comes first, in capitals, and is not repeated in the text.
	vd.class, _ = canvas.Cut(strings.ToUpper(v.Class), w)
	rest := strings.TrimLeft(strings.TrimPrefix(v.Text, v.Class), ":; ")
	rest = strings.TrimSuffix(rest, v.Basis) // the panel's title and the top line have it
	vd.whole, vd.lines = vd.whole[:0], vd.lines[:0]
	class := strings.ReplaceAll(vd.class, " ", units.NoBreak) + " "
	vd.add(verdictRow{text: class + rest}, w)
	vd.shorten(class, &v.Brief, w)
	next, why := a.Next()
	if at := strings.Index(next, test); at >= 0 && f.Value != "" && len(nextLabel+next+pressFirst+vd.Key+pressKeys(&f)) > w {
		next = next[:at] + ")"
	}
	vd.add(verdictRow{label: nextLabel, text: next}, w)
	if f.Value != "" && !f.Predicted.Made() && f.Measured.Value == 0 {
		for _, rows := range [...][]verdictRow{vd.whole, vd.lines} {
			if last := &rows[len(rows)-1]; !last.cut && verdictIndent+canvas.Width(last.text)+2+len(gainUnknown) <= w {
				last.aside = "  " + gainUnknown
			}
		}
	}
	vd.add(verdictRow{label: whyLabel, text: why}, w)
	vd.answers = 0
	if a.Asked != "" {
		for _, line := range wrapWords(a.Asked, w) {
			row := verdictRow{text: line}
			vd.whole, vd.lines = append(vd.whole, row), append(vd.lines, row)
			vd.answers++
		}
	}
	vd.tall.need(max(1, len(vd.lines)))
}

// shorten has the first line say the verdict in fewer words, if its text is cut before the line of code.
func (vd *Verdict) shorten(class string, b *advice.Brief, w int) {
	if len(vd.lines) == 0 || !vd.lines[0].cut || len(b.Clause) == 0 {
		return
	}
	first := &vd.lines[0]
	for _, rest := range [...]string{verdictRest, " ~"} {
		shown, _ := canvas.Cut(first.text, max(0, w-len(rest)))
		if strings.Contains(shown, b.Clause[0]) || b.Line && strings.Contains(shown, b.At) {
			return
		}
		first.fills = true
	}
	for _, clause := range b.Clause {
		if text := class + clause; canvas.Width(text) <= w {
			first.text, first.brief = strings.ReplaceAll(text, units.NoBreak, " "), true
			return
		}
	}
}

// add adds a text to whole, and its first line to lines.
func (vd *Verdict) add(row verdictRow, w int) {
	if row.text == "" {
		return
	}
	texts := wrapWords(row.text, w-len(row.label))
	for i, text := range texts {
		row.text = text
		vd.whole = append(vd.whole, row)
		if i == 0 {
			first := row
			first.cut = len(texts) > 1
			vd.lines = append(vd.lines, first)
			row.label = strings.Repeat(" ", len(row.label))
		}
	}
}
