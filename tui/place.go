package tui

// sizeClass is a size of the screen, which never refuses to run.
type sizeClass uint8

const (
	sizeLine    sizeClass = iota // below 40x8: one line
	sizeSmall                    // below 80x24: verdict, gauges, the STALL lane, the selected knob
	sizeCompact                  // below 120x30: gauges in lines, one panel beside the knobs
	sizeFull
	sizeLarge // from 160x42: the knobs' column down to the end, notes under them
)

func classOf(w, h int) sizeClass {
	switch {
	case w < 40 || h < 8:
		return sizeLine
	case w < 80 || h < 24:
		return sizeSmall
	case w < 120 || h < 30:
		return sizeCompact
	case w < 160 || h < 42:
		return sizeFull
	}
	return sizeLarge
}

// lines is the height of a text that changes while it is read. More lines are given at
// once, fewer only when many texts in a row needed fewer, because each change moves what
// lies around.
type lines struct {
	n     int
	fewer int // texts in a row that needed fewer
}

// fewerTexts is how many texts in a row must be shorter.
const fewerTexts = 10

// need is told how many lines a new text has.
func (l *lines) need(n int) {
	if n < l.n && l.fewer < fewerTexts {
		l.fewer++
		return
	}
	l.n, l.fewer = n, 0
}

// loosen lets the next text have fewer, when everything moves anyway.
func (l *lines) loosen() { l.fewer = fewerTexts }

// space is what there is for the panels.
type space struct {
	class   sizeClass
	w, h    int // of the body, between header and footer
	verdict int // rows of it that the verdict takes
	guide   int // and the story under it
}

// rest is the height that verdict and story leave.
func (s space) rest() int { return s.h - s.verdict - s.guide }

// band is a strip of the body. Bands lie one below the other, and the panels of a
// band side by side.
type band uint8

const (
	nowhere band = iota // the panel is not shown
	verdictBand
	guideBand
	gaugesBand
	mainBand
	lastBand
	numBands

	lowerBand = lastBand // of the compact screen
)

// place is what a panel asks of the layout.
type place struct {
	band  band
	under string // the panel at whose foot it stands, in the same column; "" for a column of its own
	rows  int    // 0: those that the other bands leave
	cols  int    // 0: those that the others of the band leave
}

// leastRows is the height of a panel that shows something, its box included.
const leastRows = 3

// placeInstead is the place of a panel that replaces the other side panels.
func placeInstead(s space) place {
	if s.class == sizeCompact {
		return place{band: lowerBand}
	}
	return place{band: lastBand, rows: s.rest() / 2}
}
