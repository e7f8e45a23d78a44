package tui

import (
	"math"
	"strconv"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// badge is a label that must be visible whenever it is true.
type badge struct {
	long, short string
	st          canvas.Style
}

const maxBadges = 10 // without an allocation

// badges lists in buf what must not be forgotten about the numbers: that they are not
// those of this moment, and the labels.
func (m *Model) badges(buf *[maxBadges]badge) []badge {
	out := buf[:0]
	if m.o.Replay {
		out = append(out, badge{"REPLAY", "RPL", canvas.Badge})
	}
	if m.frozen && !m.o.Replay { // also where no timeline's title says so
		out = append(out, badge{"FROZEN", "FRZ", canvas.Paused})
	}
	switch m.underWay() {
	case trace.Paired:
		out = append(out, badge{"A-B-A", "ABA", canvas.Paused})
	case trace.Ceiling:
		out = append(out, badge{"INTERLUDE", "INT", canvas.Paused})
	case trace.Tune:
		out = append(out, badge{"TUNING", "TUN", canvas.Paused})
	}
	for i := range m.analysis.labels {
		l := &m.analysis.labels[i]
		out = append(out, badge{l.Badge, l.Short, pick(l.Alarm, canvas.BadgeBad, canvas.Badge)})
	}
	return out
}

// state is the run's state in one word.
func (m *Model) state() (glyph rune, word string, st canvas.Style) {
	o := &m.live.Outcome
	switch {
	case o.Ended != 0 || (o.Status != "" && o.Status != "running"):
		st = canvas.Bold
		word = "ENDED"
		switch o.Status {
		case "failed", "killed":
			st = canvas.BadBold
			word = "FAILED"
			if o.Status == "killed" {
				word = "KILLED"
			}
		case "stopped":
			word = "STOPPED"
		case "finished":
			word = pick(m.live.Meta.Imported != "", "RECORDED", "FINISHED") // how the run of a trace ended is not known
		}
		return m.c.Glyphs.End, word, st
	case m.paused:
		return m.c.Glyphs.Pause, "PAUSED", canvas.Paused
	case m.live.Evaluating():
		return m.c.Glyphs.Pause, "EVALUATING", canvas.Paused
	case m.o.Replay:
		return m.c.Glyphs.End, "UNFINISHED", canvas.Paused
	case len(m.live.Recent) == 0:
		return m.c.Glyphs.Play, "START", canvas.Paused
	}
	return m.c.Glyphs.Play, "RUN", canvas.Running
}

// drawHeader draws the top line: what must be known always on the left, the
// screen's own numbers on the right, and of the rest what fits.
func (m *Model) drawHeader(r canvas.Rectangle) {
	var bb [maxBadges]badge
	badges := m.badges(&bb)
	short := r.W < 100
	need := 0
	for _, b := range badges {
		need += len(pick(short, b.short, b.long)) + 3
	}
	s := &m.pic.snap
	p := m.c.Pen(r.X+1, r.Y, r.W-1)
	p.Text(canvas.Name, "gpustall").Space(2)
	glyph, word, st := m.state()
	p.Rune(st, glyph).Space(1).Text(st, word).Space(2)
	for _, b := range badges {
		p.Text(b.st, " ").Text(b.st, pick(short, b.short, b.long)).Text(b.st, " ").Space(1)
	}
	p.Space(1)
	right := m.drawHeaderRight(r, p.X)
	p.Limit = max(p.X, right-1)
	item := func(n int) bool { return p.Left() >= n }
	model := s.Meta.Model
	if model != "" && item(len(model)+2) {
		p.Text(canvas.Bold, model).Space(2)
	}
	if item(8) {
		var b [16]byte
		p.Bytes(canvas.Normal, units.AppendClock(b[:0], m.pic.at)).Space(2)
	}
	if n := len(s.Recent); n > 0 {
		last := &s.Recent[n-1]
		if item(12) {
			n := last.Index + 1 // so many there were
			if s.Meta.Imported != "" {
				n = last.Index // a trace's have numbers of their own: ProfilerStep#5
			}
			p.Text(canvas.Dim, "step ").Bytes(canvas.Bold, units.AppendCount(p.Buf(), n)).Space(2)
		}
		if s.Meta.Imported == "" && item(9) {
			p.Text(canvas.Dim, "epoch ").Bytes(canvas.Normal, units.AppendCount(p.Buf(), last.Epoch+1)).Space(2)
		}
		if s.Meta.Learns() && item(10) {
			p.Text(canvas.Dim, "loss ")
			switch {
			case last.Diverged():
				p.Text(canvas.Bad, pick(math.IsNaN(m.pic.loss), "NaN", "inf"))
			case math.IsNaN(m.pic.loss):
				p.Text(canvas.Normal, "-")
			default:
				p.Bytes(canvas.Normal, units.AppendLoss(p.Buf(), m.pic.loss))
			}
			p.Space(2)
		}
		if !math.IsNaN(m.analysis.win.top1) && item(12) {
			p.Text(canvas.Dim, "top1 ").Bytes(canvas.Normal, units.Narrow.AppendPercent(p.Buf(), m.analysis.win.top1)).Space(2)
		}
		if top1, ok := s.Gauge(trace.GaugeTestTop1); ok && item(12) {
			p.Text(canvas.Dim, "test ").Bytes(canvas.Bold, units.Narrow.AppendPercent(p.Buf(), top1)).Space(2)
		}
		if lr, ok := s.Gauge(trace.GaugeLearningRate); ok && item(12) {
			p.Text(canvas.Dim, "lr ").Bytes(canvas.Normal, units.AppendLearningRate(p.Buf(), lr)).Space(2)
		}
	}
	if item(12) {
		p.Text(canvas.Dim, s.Meta.Device)
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
func (m *Model) drawHeaderRight(r canvas.Rectangle, used int) int {
	var b [64]byte
	t := b[:0]
	if r.W >= 100 {
		t = strconv.AppendInt(t, int64(m.fps), 10)
		t = append(t, " fps  "...)
	}
	if r.W >= 70 || m.pic.drops > 0 {
		t = append(t, "drop "...)
		t = units.AppendCount(t, m.pic.drops)
		t = append(t, "  "...)
	}
	lost := m.live.Outcome.Unsaved
	if lost.Any() {
		t = append(t, "unsaved "...)
		t = units.AppendCount(t, lost.Steps+lost.Spans)
		t = append(t, "  "...)
	}
	if m.pic.next {
		t = append(t, "cfg #"...)
		t = strconv.AppendInt(t, int64(m.pic.seg.Index), 10)
	}
	x := r.X + r.W - len(t) - 1
	if x <= used {
		return r.X + r.W
	}
	st := canvas.Dim
	if m.pic.drops > 0 || lost.Any() {
		st = canvas.Warn
	}
	m.c.Right(x, r.Y, len(t), st, t)
	return x
}

// drawOneLine is the screen below 40x8.
func (m *Model) drawOneLine() {
	var bb [maxBadges]badge
	badges := m.badges(&bb)
	p := m.c.Pen(0, 0, m.w)
	switch { // below it there is room that nothing else needs
	case m.asking && m.h > 1:
		m.c.Text(0, 1, m.w, canvas.WarnBold, "Quit? y or n")
	case m.asking:
		p.Text(canvas.WarnBold, "Quit? y or n")
		return
	case m.msg.text != "":
		for i, line := range canvas.Wrap(m.msg.text, m.w) {
			m.c.Text(0, 1+i, pick(1+i < m.h, m.w, 0), pick(m.msg.level == "error", canvas.Bad, canvas.Normal), line)
		}
	}
	glyph, _, st := m.state()
	p.Rune(st, glyph).Space(1)
	need := 0
	for _, b := range badges {
		need += len(b.short) + 1
	}
	full := p.Limit
	p.Limit = max(p.X, full-need)
	us := m.analysis.win.style()
	if p.Left() >= 6 {
		p.Bytes(bold(us), units.Narrow.AppendPercent(p.Buf(), m.analysis.win.util)).Space(1)
	}
	if p.Left() >= 8 {
		p.Bytes(canvas.Normal, units.AppendRate(p.Buf(), m.analysis.win.rate)).Text(canvas.Dim, "/s").Space(1)
	}
	if c, f := m.analysis.win.worst(); f > 0 && p.Left() >= 7 {
		p.Rune(causeHue(c).Text(), c.Info().Letter).Bytes(stallStyle(f), units.Narrow.AppendPercent(p.Buf(), f)).Space(1)
	}
	p.Limit = full
	one := p.Left() < need
	for _, b := range badges {
		if one {
			p.Text(b.st, b.short[:1])
			continue
		}
		p.Text(b.st, b.short).Space(1)
	}
}
