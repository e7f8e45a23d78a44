package tui

import (
	"math"
	"time"

	"dev.gpustall/engine/base/timer"
)

// refresh pulls a snapshot and computes the picture of the moment shown. The
// spans, which cost most when a column is wide, are pulled only as often as
// keeps them under 1 % of a core, unless force says that the view was moved.
func (m *Model) refresh(now time.Time, force bool) {
	if m.o.Source == nil {
		return
	}
	first := m.live == nil
	if first {
		m.live = m.o.Source.Snapshot(0, 0) // to learn the time
		m.notes = len(m.live.Notes)
		if m.o.Replay {
			m.at = m.live.Now
		}
		if n := len(m.live.Damage); n == 1 {
			m.say("error", m.live.Damage[0])
		} else if n > 1 {
			m.say("error", m.live.Damage[0]+" (n shows what else is)")
		}
	}
	m.timeline.cols = timelineCols(m.timelineWidth())
	at := m.at
	if !m.frozen {
		at = math.MaxInt64
	}
	was, wasPaused := m.pic.at, m.paused
	spans := force || first || (now.Sub(m.spansAt) >= m.spansPause && !(m.frozen && was == at))
	if spans {
		spent := timer.Spent(func() {
			from, to := m.spanWindow(at)
			m.live = m.o.Source.Snapshot(from, to)
			m.picture(at)
			m.timeline.update(&m.pic, m.live.Spans)
			m.explain()
		})
		m.spansAt, m.spansPause = now, 100*spent
	} else {
		m.live = m.o.Source.Snapshot(0, 0)
		m.picture(at)
	}
	m.news()
	if !m.frozen || first || was != m.pic.at || wasPaused != m.paused {
		m.dirty = true
	}
}

// picture computes the numbers of the moment at from the newest snapshot.
func (m *Model) picture(at int64) {
	if m.o.Control != nil {
		m.paused = m.o.Control.Paused()
	}
	m.knobs.update(m.live, m.o.Control)
	m.pic.compute(m.live, min(at, m.live.Now))
}

// news shows a warning or an error of the log once, when it arrives.
func (m *Model) news() {
	for notes := m.live.Notes; m.notes < len(notes); m.notes++ {
		if n := &notes[m.notes]; n.Level != "info" {
			m.say(n.Level, firstLine(n.Text))
		}
	}
}

// spanWindow is the interval of spans that the timeline needs for the moment
// at, with a margin for the time that passes until the snapshot is taken.
func (m *Model) spanWindow(at int64) (from, to int64) {
	edge := min(at, m.live.Now) - 500e6
	if n := len(m.live.Recent); n > 0 && m.live.Outcome.Ended != 0 && at >= m.live.Now {
		edge = min(edge, m.live.Recent[n-1].End)
	}
	from, _ = m.timeline.window(max(0, edge))
	return max(from, 0), max(at, 1)
}

// timelineWidth is the columns inside the timeline's box, or those that it would
// have.
func (m *Model) timelineWidth() int {
	l := m.layout()
	if !l.brief.Empty() {
		return m.w
	}
	for i, r := range l.panels {
		if m.panels[i].name == "timeline" && !r.Empty() {
			return r.Inner().W
		}
	}
	return m.w - 2
}

// explain puts into words what the timeline shows.
func (m *Model) explain() {
	m.timeline.explain(&m.pic, m.paused, m.focus.name == "timeline", !m.frozen)
}

// refreshTimeline aggregates again, with the spans at hand.
func (m *Model) refreshTimeline() {
	if m.live != nil {
		m.timeline.update(&m.pic, m.timeline.spans)
		m.timeline.explained = [3]int64{}
		m.explain()
	}
}
