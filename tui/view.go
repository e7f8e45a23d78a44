package tui

import (
	"math"
	"strconv"
)

// View returns the frame. It is drawn again only when something changed:
// bubbletea asks after every message.
func (m *Model) View() string {
	if m.dirty || m.cached == "" {
		m.render()
		m.cached = m.c.frame(&m.themes[m.theme].sgr)
		m.dirty = false
	}
	return m.cached
}

// render draws everything into the canvas.
func (m *Model) render() {
	if m.w <= 0 || m.h <= 0 {
		m.c.resize(0, 0)
		return
	}
	m.c.resize(m.w, m.h)
	m.c.clear()
	l := m.layout()
	if m.live == nil {
		m.c.pen(1, 0, m.w-2).hint(stDim, "gpustall: waiting for the session")
		return
	}
	switch {
	case l.class == sizeLine:
		m.drawOneLine()
	case l.class == sizeSmall:
		m.drawHeader(l.header)
		m.drawSmall(l.gauges)
		m.drawFooter(l.footer)
	default:
		m.drawHeader(l.header)
		m.drawPanels(&l)
		m.drawFooter(l.footer)
	}
	if m.overlay != overlayNone && l.class != sizeLine {
		m.drawOverlay(rect{0, 1, m.w, m.h - 2})
	}
}

func (m *Model) layout() layout { return arrange(m.w, m.h, m.focus, m.side, m.expanded) }

func (m *Model) drawPanels(l *layout) {
	if !l.gauges.empty() {
		if l.class == sizeCompact {
			m.drawGaugesCompact(l.gauges)
		} else {
			m.drawGauges(l.gauges)
		}
	}
	if !l.timeline.empty() {
		m.drawTimeline(l.timeline)
	}
	if !l.knobs.empty() {
		title := "Knobs"
		if m.o.Control == nil {
			title = "Knobs (read-only)"
		}
		m.box(l.knobs, title, paneKnobs)
		m.kn.draw(m, l.knobs.inner())
	}
	if !l.verdict.empty() {
		m.drawVerdict(l.verdict)
	}
	if !l.stalls.empty() {
		m.drawStalls(l.stalls)
	}
	if !l.experiments.empty() {
		m.ex.draw(m, l.experiments)
	}
	if !l.notes.empty() {
		m.box(l.notes, "Notes", 0)
		m.drawNotes(l.notes.inner(), 0)
	}
}

func (m *Model) drawTimeline(r rect) {
	p := m.box(r, "Timeline", paneTimeline)
	in := r.inner()
	p.dur(stNormal, int64(m.tl.cols)*m.tl.bin()).text(stDim, ", ").
		text(stNormal, zoomNames[m.tl.zoom]).text(stDim, " a column ")
	switch {
	case m.tl.typing:
		p.text(stKey, " filter: /").text(stBold, m.tl.filter).text(stCursor, " ").text(stDim, " enter ")
	case m.tl.filter != "":
		p.text(stKey, " /"+m.tl.filter).text(stDim, " ")
	}
	m.drawMoment(r)
	m.tl.draw(m, in)
}

// drawMoment says at the right of the timeline's title which moment is shown.
func (m *Model) drawMoment(r rect) {
	var b [48]byte
	t, st := b[:0], stPause
	switch {
	case m.o.Replay && m.play:
		t, st = append(t, " PLAYING "...), stRun
	case m.o.Replay:
		t = append(t, " at "...)
	case m.frozen:
		t = append(t, " FROZEN "...)
	default:
		return
	}
	if m.o.Replay {
		t = appendClock(t, m.at)
		t = append(t, " of "...)
		t = appendClock(t, m.live.Now)
	} else if back := m.live.Now - m.at; back > 0 {
		t = appendDur(t, -back)
	}
	t = append(t, ' ')
	if r.w < len(t)+30 {
		return
	}
	m.c.right(r.x, r.y, r.w-2, st, t)
}

// badge is a label that must be visible whenever it is true.
type badge struct {
	long, short string
	st          style
}

// badges lists the labels that are true, in buf.
func (m *Model) badges(buf *[5]badge) []badge {
	out := buf[:0]
	if m.o.Replay {
		out = append(out, badge{"REPLAY", "RPL", stBadge})
	}
	if m.live.Meta.Emulated {
		out = append(out, badge{"EMULATED", "EMU", stBadge})
	}
	if m.live.Meta.Synthetic {
		out = append(out, badge{"SYNTHETIC", "SYN", stBadge})
	}
	if m.pic.injected {
		out = append(out, badge{"INJECTED", "INJ", stBadgeBad})
	}
	if m.pic.ceiling {
		out = append(out, badge{"CEILING", "CEIL", stBadge})
	}
	return out
}

// state is the run's state in one word.
func (m *Model) state() (glyph rune, word string, st style) {
	o := &m.live.Outcome
	switch {
	case o.Ended != 0 || (o.Status != "" && o.Status != "running"):
		st = stBold
		word = "ENDED"
		switch o.Status {
		case "failed", "killed":
			st = stBadBold
			word = "FAILED"
			if o.Status == "killed" {
				word = "KILLED"
			}
		case "stopped":
			word = "STOPPED"
		case "finished":
			word = "FINISHED"
		}
		return m.cs.end, word, st
	case m.paused:
		return m.cs.pause, "PAUSED", stPause
	case m.o.Replay:
		return m.cs.end, "UNFINISHED", stPause
	case len(m.live.Steps) == 0:
		return m.cs.play, "START", stPause
	}
	return m.cs.play, "RUN", stRun
}

// drawHeader draws the top line: what must be known always on the left, the
// screen's own numbers on the right, and of the rest what fits.
func (m *Model) drawHeader(r rect) {
	var bb [5]badge
	badges := m.badges(&bb)
	short := r.w < 100
	need := 0
	for _, b := range badges {
		need += len(pick(short, b.short, b.long)) + 3
	}
	s := &m.pic.snap
	p := m.c.pen(r.x+1, r.y, r.w-1)
	p.text(stBar, "gpustall").space(2)
	glyph, word, st := m.state()
	p.rune(st, glyph).space(1).text(st, word).space(2)
	for _, b := range badges {
		p.text(b.st, " ").text(b.st, pick(short, b.short, b.long)).text(b.st, " ").space(1)
	}
	p.space(1)
	right := m.drawHeaderRight(r, p.x)
	p.limit = max(p.x, right-1)
	item := func(n int) bool { return p.left() >= n }
	model := s.Meta.Model
	if model != "" && item(len(model)+2) {
		p.text(stBold, model).space(2)
	}
	if item(8) {
		var b [16]byte
		p.bytes(stNormal, appendClock(b[:0], m.pic.at)).space(2)
	}
	if n := len(s.Steps); n > 0 {
		last := &s.Steps[n-1]
		if item(12) {
			p.text(stDim, "step ").int(stBold, int64(last.Index)+1).space(2)
		}
		if item(9) {
			p.text(stDim, "epoch ").int(stNormal, int64(last.Epoch)+1).space(2)
		}
		if item(10) {
			p.text(stDim, "loss ")
			if math.IsNaN(m.pic.loss) {
				p.text(stNormal, "-")
			} else {
				p.float(stNormal, m.pic.loss, 3)
			}
			p.space(2)
		}
		if !math.IsNaN(m.pic.top1) && item(12) {
			p.text(stDim, "top1 ").pct(stNormal, m.pic.top1).space(2)
		}
	}
	if item(12) {
		p.text(stDim, s.Meta.Device)
	}
}

func pick(c bool, a, b string) string {
	if c {
		return a
	}
	return b
}

// drawHeaderRight draws rate, drops and configuration, and returns the column
// where it starts. Drops are shown whatever the width.
func (m *Model) drawHeaderRight(r rect, used int) int {
	var b [64]byte
	t := b[:0]
	if r.w >= 100 {
		t = strconv.AppendInt(t, int64(m.fps), 10)
		t = append(t, " fps  "...)
	}
	if r.w >= 70 || m.pic.drops > 0 {
		t = append(t, "drop "...)
		t = appendCount(t, m.pic.drops)
		t = append(t, "  "...)
	}
	if m.pic.next {
		t = append(t, "cfg #"...)
		t = strconv.AppendInt(t, int64(m.pic.seg.Index), 10)
	}
	x := r.x + r.w - len(t) - 1
	if x <= used {
		return r.x + r.w
	}
	st := stDim
	if m.pic.drops > 0 {
		st = stWarn
	}
	m.c.pen(x, r.y, len(t)).raw(st, t)
	return x
}

// drawOneLine is the screen below 40x8.
func (m *Model) drawOneLine() {
	var bb [5]badge
	badges := m.badges(&bb)
	p := m.c.pen(0, 0, m.w)
	glyph, _, st := m.state()
	p.rune(st, glyph).space(1)
	need := 0
	for _, b := range badges {
		need += len(b.short) + 1
	}
	full := p.limit
	p.limit = max(p.x, full-need)
	us := utilStyle(m.pic.util)
	if p.left() >= 6 {
		p.pct(bold(us), m.pic.util).space(1)
	}
	if p.left() >= 8 {
		p.rate(stNormal, m.pic.rate).text(stDim, "/s").space(1)
	}
	if c, f := m.worst(); f > 0 && p.left() >= 7 {
		p.rune(c.text(), causeLetter[c]).pct(stallStyle(f), f).space(1)
	}
	p.limit = full
	one := p.left() < need
	for _, b := range badges {
		if one {
			p.text(b.st, b.short[:1])
			continue
		}
		p.text(b.st, b.short).space(1)
	}
}
