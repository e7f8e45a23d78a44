package tui

import (
	"math"
	"strconv"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
	"dev.gpustall/tui/panel"
)

// badge is a label that is shown at every size whenever it is true.
type badge struct {
	long, short string
	st          canvas.Style
}

// header is the top line of the screen, or all of a screen that has only one line.
type header struct {
	v        *panel.View
	fps      int
	underWay trace.ExperimentKind // the experiment, empty where there is none
}

const maxBadges = 10 // as many fit in the buffer of badges

// badges lists in buf what the user must know about the numbers. Examples are that they are not of
// this moment, that an experiment changes the settings, and the labels of the analysis.
func (h *header) badges(buf *[maxBadges]badge) []badge {
	out := buf[:0]
	if h.v.Replay {
		out = append(out, badge{"REPLAY", "RPL", canvas.Badge})
	}
	if h.v.Frozen && !h.v.Replay { // the timeline's title also says so, but may be hidden
		out = append(out, badge{"FROZEN", "FRZ", canvas.Paused})
	}
	switch h.underWay {
	case trace.Paired:
		out = append(out, badge{"A/B TEST", "A/B", canvas.Paused})
	case trace.Ceiling:
		out = append(out, badge{"INTERLUDE", "INT", canvas.Paused})
	case trace.Tune:
		out = append(out, badge{"TUNING", "TUN", canvas.Paused})
	}
	for i := range h.v.Analysis.Labels {
		l := &h.v.Analysis.Labels[i]
		out = append(out, badge{l.Badge, l.Short, panel.Pick(l.Alarm, canvas.BadgeBad, canvas.Badge)})
	}
	return out
}

// state returns the run's state in one word.
func (h *header) state() (glyph rune, word string, st canvas.Style) {
	o := &h.v.Live.Outcome
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
			word = panel.Pick(h.v.Live.Meta.Imported != "", "RECORDED", "FINISHED") // how the run of an imported trace ended is not known
		}
		return h.v.C.Glyphs.End, word, st
	case h.v.Paused:
		return h.v.C.Glyphs.Pause, "PAUSED", canvas.Paused
	case h.v.Live.Evaluating():
		return h.v.C.Glyphs.Pause, "EVALUATING", canvas.Paused
	case h.v.Replay:
		return h.v.C.Glyphs.End, "UNFINISHED", canvas.Paused
	case len(h.v.Live.Recent) == 0:
		return h.v.C.Glyphs.Play, "START", canvas.Paused
	}
	if ns := h.v.Live.Silence(); ns > 0 {
		since := units.Narrow.Time(ns.Truncate(time.Second).Nanoseconds())
		if h.v.Live.InEvaluation() {
			return h.v.C.Glyphs.Pause, "EVALUATING " + since, canvas.Paused
		}
		return h.v.C.Glyphs.Play, "NO STEP FOR " + since, canvas.Warn
	}
	return h.v.C.Glyphs.Play, "RUN", canvas.Running
}

// draw draws the top line: the state and the badges on the left, the screen's own numbers on the
// right, and between them what fits.
func (h *header) draw(r canvas.Rectangle) {
	var bb [maxBadges]badge
	badges := h.badges(&bb)
	short := r.W < 100
	need := 0
	for _, b := range badges {
		need += len(panel.Pick(short, b.short, b.long)) + 3
	}
	s := &h.v.Pic.Snap
	p := h.v.C.Pen(r.X+1, r.Y, r.W-1)
	p.Text(canvas.Name, "gpustall").Space(2)
	glyph, word, st := h.state()
	p.Rune(st, glyph).Space(1).Text(st, word).Space(2)
	for _, b := range badges {
		p.Text(b.st, " ").Text(b.st, panel.Pick(short, b.short, b.long)).Text(b.st, " ").Space(1)
	}
	p.Space(1)
	right := h.drawRight(r, p.X)
	p.Limit = max(p.X, right-1)
	item := func(n int) bool { return p.Left() >= n }
	model := s.Meta.Model
	if model != "" && item(len(model)+2) {
		p.Text(canvas.Bold, model).Space(2)
	}
	if rank := knob.ValueOf(s.Meta.Host, trace.JobRank); rank != "" && item(12) {
		p.Text(canvas.Dim, "rank ").Text(canvas.Bold, rank).Space(2)
	}
	if item(8) {
		var b [16]byte
		p.Bytes(canvas.Normal, units.AppendClock(b[:0], h.v.Pic.At)).Space(2)
	}
	if n := len(s.Recent); n > 0 {
		last := &s.Recent[n-1]
		if item(12) {
			n := last.Index + 1 // how many steps there were
			if s.Meta.Imported != "" {
				n = last.Index // the steps of an imported trace have their own numbers: ProfilerStep#5
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
				p.Text(canvas.Bad, panel.Pick(math.IsNaN(h.v.Pic.Loss), "NaN", "inf"))
			case math.IsNaN(h.v.Pic.Loss):
				p.Text(canvas.Normal, "-")
			default:
				p.Bytes(canvas.Normal, units.AppendLoss(p.Buf(), h.v.Pic.Loss))
			}
			p.Space(2)
		}
		if !math.IsNaN(h.v.Analysis.Win.Top1) && item(12) {
			p.Text(canvas.Dim, "top1 ").Bytes(canvas.Normal, units.Narrow.AppendPercent(p.Buf(), h.v.Analysis.Win.Top1)).Space(2)
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

// drawRight draws the rate of frames, the drops and the configuration, and returns the column where
// they start. Drops are shown at every width.
func (h *header) drawRight(r canvas.Rectangle, used int) int {
	var b [64]byte
	t := b[:0]
	if r.W >= 100 {
		t = strconv.AppendInt(t, int64(h.fps), 10)
		t = append(t, " fps  "...)
	}
	if r.W >= 70 || h.v.Pic.Drops > 0 {
		t = append(t, "drop "...)
		t = units.AppendCount(t, h.v.Pic.Drops)
		t = append(t, "  "...)
	}
	lost := h.v.Live.Outcome.Unsaved
	if lost.Any() {
		t = append(t, "unsaved "...)
		t = units.AppendCount(t, lost.Steps+lost.Spans)
		t = append(t, "  "...)
	}
	if h.v.Pic.HasSegment {
		t = append(t, "cfg #"...)
		t = strconv.AppendInt(t, int64(h.v.Pic.Segment.Index), 10)
	}
	x := r.X + r.W - len(t) - 1
	if x <= used {
		return r.X + r.W
	}
	st := canvas.Dim
	if h.v.Pic.Drops > 0 || lost.Any() {
		st = canvas.Warn
	}
	h.v.C.Right(x, r.Y, len(t), st, t)
	return x
}

// drawLine draws the first line of the screen below 40x8, and below it the question or the message.
func (h *header) drawLine(asking bool, msg *message) {
	w, rows := h.v.C.W, h.v.C.H
	var bb [maxBadges]badge
	badges := h.badges(&bb)
	p := h.v.C.Pen(0, 0, w)
	switch { // nothing else needs the lines below
	case asking && rows > 1:
		h.v.C.Text(0, 1, w, canvas.WarnBold, "Quit? y or n")
	case asking:
		p.Text(canvas.WarnBold, "Quit? y or n")
		return
	case msg.text != "":
		for i, line := range canvas.Wrap(msg.text, w) {
			h.v.C.Text(0, 1+i, panel.Pick(1+i < rows, w, 0), panel.Pick(msg.level == "error", canvas.Bad, canvas.Normal), line)
		}
	}
	glyph, _, st := h.state()
	p.Rune(st, glyph).Space(1)
	need := 0
	for _, b := range badges {
		need += len(b.short) + 1
	}
	full := p.Limit
	p.Limit = max(p.X, full-need)
	us := h.v.Analysis.Win.Style()
	if p.Left() >= 6 {
		p.Bytes(panel.Bold(us), units.Narrow.AppendPercent(p.Buf(), h.v.Analysis.Win.Util)).Space(1)
	}
	if p.Left() >= 8 {
		p.Bytes(canvas.Normal, units.AppendRate(p.Buf(), h.v.Analysis.Win.Rate)).Text(canvas.Dim, "/s").Space(1)
	}
	if c, f := h.v.Analysis.Win.Worst(); f > 0 && p.Left() >= 7 {
		p.Rune(panel.CauseHue(c).Text(), c.Info().Letter).Bytes(panel.StallStyle(f), units.Narrow.AppendPercent(p.Buf(), f)).Space(1)
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
