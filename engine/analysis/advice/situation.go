package advice

import (
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// situation is what rules read: values of one concern each, all of the same steps.
type situation struct {
	tally   *trace.Tally // the steps judged
	session session
	time    deviceTime
	knobs   inForce
	tried   history
	host    host
	loader  loader
	levers  levers
	script  script
	profile profile
}

func newSituation(s *trace.Snapshot, t *trace.Tally, rows []attribution.SegmentStats, trials []Trial) *situation {
	c := &situation{tally: t, session: session{s, t.From, t.To}, knobs: newInForce(s, t.Segment), profile: profile{s.Meta.Profile}}
	c.time = newDeviceTime(&c.session, t)
	c.tried = history{session: &c.session, knobs: &c.knobs, segment: t.Segment, trials: trials, rows: rows, notApplied: notApplied(s)}
	c.host = newHost(&c.time, t)
	c.loader = newLoader(c)
	if c.loader.workers == 0 {
		c.time.opening = 0
	}
	c.levers = levers{&c.time, &c.knobs, &c.tried, &c.host, &c.loader}
	c.script = script{&c.session, &c.host}
	return c
}

// asStarted reports whether knobs have the values that the run began with.
func (s *situation) asStarted(names ...string) bool {
	if len(s.session.Segments) == 0 {
		return false
	}
	first := s.session.Segments[0].Knobs
	return !slices.ContainsFunc(names, func(n string) bool { return knob.ValueOf(first, n) != s.knobs.value(n) })
}
