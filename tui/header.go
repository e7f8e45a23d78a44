package tui

import (
	"math"
	"strconv"
)

// badge is a label that must be visible whenever it is true.
type badge struct {
	long, short string
	st          style
}

// badges lists the labels that are true, in buf.
func (m *Model) badges(buf *[6]badge) []badge {
	out := buf[:0]
	if m.o.Replay {
		out = append(out, badge{"REPLAY", "RPL", stBadge})
	}
	if m.frozen && !m.o.Replay { // also where no timeline's title says so
		out = append(out, badge{"FROZEN", "FRZ", stPause})
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
	if m.pic.diverged {
		out = append(out, badge{"DIVERGED", "DIV", stBadgeBad})
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
	var bb [6]badge
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
			switch {
			case last.Diverged():
				p.text(stBad, pick(math.IsNaN(m.pic.loss), "NaN", "inf"))
			case math.IsNaN(m.pic.loss):
				p.text(stNormal, "-")
			default:
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

func pick[T any](c bool, a, b T) T {
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
	lost := m.live.Outcome.Unsaved
	if lost.Any() {
		t = append(t, "unsaved "...)
		t = appendCount(t, lost.Steps+lost.Spans)
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
	if m.pic.drops > 0 || lost.Any() {
		st = stWarn
	}
	m.c.pen(x, r.y, len(t)).raw(st, t)
	return x
}

// drawOneLine is the screen below 40x8.
func (m *Model) drawOneLine() {
	var bb [6]badge
	badges := m.badges(&bb)
	p := m.c.pen(0, 0, m.w)
	switch { // below it there is room that nothing else needs
	case m.asking && m.h > 1:
		m.c.pen(0, 1, m.w).hint(stWarnBold, "Quit? y or n")
	case m.asking:
		p.text(stWarnBold, "Quit? y or n")
		return
	case m.msg.text != "":
		for i, line := range wrap(m.msg.text, m.w) {
			m.c.pen(0, 1+i, pick(1+i < m.h, m.w, 0)).hint(pick(m.msg.level == "error", stBad, stNormal), line)
		}
	}
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
