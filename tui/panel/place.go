package panel

// SizeClass is a range of sizes of the screen. There is a layout for every size.
type SizeClass uint8

const (
	SizeLine    SizeClass = iota // below 40x8: a line of state, and the verdict
	SizeSmall                    // below 80x24: verdict, gauges, the STALL lane, the selected knob
	SizeCompact                  // below 120x30: gauges in lines, one panel beside the knobs
	SizeFull
	SizeLarge // from 160x42: the knobs' column reaches the bottom, with notes under the knobs
)

// ClassOf returns the class of a screen of w columns and h rows.
func ClassOf(w, h int) SizeClass {
	switch {
	case w < 40 || h < 8:
		return SizeLine
	case w < 80 || h < 24:
		return SizeSmall
	case w < 120 || h < 30:
		return SizeCompact
	case w < 160 || h < 42:
		return SizeFull
	}
	return SizeLarge
}

// lines is the height of a text that changes while it is read. It grows at once. It shrinks only
// when many texts in a row needed fewer lines, because each change moves what lies around.
type lines struct {
	n     int
	fewer int // texts in a row that needed fewer
}

// fewerTexts is how many texts in a row must be shorter before the height shrinks.
const fewerTexts = 10

// need sets how many lines a new text has.
func (l *lines) need(n int) {
	if n < l.n && l.fewer < fewerTexts {
		l.fewer++
		return
	}
	l.n, l.fewer = n, 0
}

// loosen lets the next text shrink the height, for when everything moves anyway.
func (l *lines) loosen() { l.fewer = fewerTexts }

// Space is the room for the panels.
type Space struct {
	Class   SizeClass
	W, H    int // of the body, between header and footer
	Verdict int // rows that the verdict takes
	Story   int // rows that the story under it takes
}

// Rest returns the height that verdict and story leave.
func (s Space) Rest() int { return s.H - s.Verdict - s.Story }

// Band is a strip of the body. Bands lie one below the other. The panels of a band lie side by
// side.
type Band uint8

const (
	Nowhere Band = iota // the panel is not shown
	verdictBand
	guideBand
	gaugesBand
	mainBand
	lastBand
	NumBands

	lowerBand = lastBand // of the compact screen
)

// Place is what a panel asks of the layout.
type Place struct {
	Band  Band
	Under string // the name of the panel under which it stands; "" for a column of its own
	Rows  int    // 0: the rows that the other bands leave
	Cols  int    // 0: the columns that the other panels of the band leave
}

// LeastRows is the least height of a panel that shows something, its box included.
const LeastRows = 3

// placeInstead returns the place of a panel that replaces the other side panels.
func placeInstead(s Space) Place {
	if s.Class == SizeCompact { // the timeline keeps the lanes compute and STALL
		return Place{Band: lowerBand, Rows: max(lowerRows(s), s.Rest()-gaugeRows(s)-4)}
	}
	return Place{Band: lastBand, Rows: s.Rest() / 2}
}
