package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// situation is what rules read. Each field has one concern, and all are about the same
// steps.
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
	lines   []lines.Cost
}

func newSituation(s *trace.Snapshot, t *trace.Tally, rows []attribution.SegmentStats, trials []Trial) *situation {
	c := &situation{tally: t, session: session{s, t.From, t.To}, knobs: newInForce(s, t.Segment), profile: profile{s.Meta.Profile}}
	c.time = newDeviceTime(&c.session, t)
	c.lines = lines.Of(s, t.Segment, c.time.DataShare())
	c.tried = history{session: &c.session, knobs: &c.knobs, segment: t.Segment, trials: trials, rows: rows, notApplied: notApplied(s)}
	c.host = newHost(&c.time, t)
	c.loader = newLoader(c)
	if c.loader.workers == 0 {
		c.time.opening = 0
	}
	c.levers = levers{&c.time, &c.knobs, &c.tried, &c.host, &c.loader, &c.script}
	c.script = script{session: &c.session, host: &c.host}
	if g := s.Segment(t.Segment); g != nil {
		c.script.left = s.Left(g)
	}
	return c
}

// asStarted reports whether the named knobs have the values that the run began with.
func (s *situation) asStarted(names ...string) bool {
	if len(s.session.Segments) == 0 {
		return false
	}
	first := s.session.Segments[0].Knobs
	return !slices.ContainsFunc(names, func(n string) bool { return knob.ValueOf(first, n) != s.knobs.value(n) })
}

// muchOfALine is the part of the time from which a line is named.
const muchOfALine = 0.2

// costliest returns the line with most of the time in which threads do one thing. It returns false
// where no line has much of it.
func (s *situation) costliest(at trace.Doing) (c lines.Cost, ok bool) {
	c, ok = lines.Most(s.lines, at)
	return c, ok && c.Part >= muchOfALine
}

// loses says what the verdict's group of causes takes. Records tell only of the loop's backward passes
// and optimizers, and looks at its frames tell the rest.
func (s *situation) loses(v *Verdict) string {
	share := units.Prose.Percent(v.Share)
	if v.Holder != "" {
		return fmt.Sprintf("waits %s of the time for %s", share, v.Holder)
	}
	if v.Group == trace.GroupUnknown && s.profile.gaps(v.Share) == gapScript {
		return fmt.Sprintf("the device is idle %s of the time, in which the script enqueues nothing", share)
	}
	if v.Group != trace.GroupUnknown || !s.script.alone() {
		return fmt.Sprintf(v.Group.Info().Loses, share)
	}
	text := fmt.Sprintf("the loop is in neither backward passes nor the optimizer %s of the time", share)
	if part := s.forward(); part >= moderate {
		text += fmt.Sprintf(", and in forward passes %s", units.Prose.Percent(part))
	}
	return text + s.where(trace.InStep)
}

// learns reports whether forward passes, which only looks find, take nearly all of the time that no record of a loop without a
// DataLoader tells of.
func (s *situation) learns() bool {
	part := s.forward()
	return s.script.alone() && s.script.scripted() && part >= moderate && s.time.share(trace.GroupUnknown)-part < moderate
}

// forward returns the part of the time, 0 to 1, in which looks found forward passes, and no record tells of anything else.
func (s *situation) forward() float64 {
	return min(s.at(trace.Forward), s.time.share(trace.GroupUnknown))
}

// at returns the part of the loop's time in which looks found it at one thing, 0 to 1.
func (s *situation) at(what trace.Doing) (part float64) {
	for i := range s.lines {
		if s.lines[i].At == what {
			part += s.lines[i].Part
		}
	}
	return part
}

// talks returns the part of the time in which nothing but an exchange of data between ranks goes on, 0 to 1: in backward passes,
// or in the script's own calls, which looks find it at.
func (s *situation) talks() float64 {
	told, seen := s.time.share(trace.GroupCommunication), s.at(trace.Exchange)
	if k, known := s.script.loop(); known && k.Exposed > 0 { // what is told is in backward passes
		return told + seen
	}
	return max(told, seen)
}

// lockedOut reports whether another thread's hold on the GIL is most of what the loop's waits for data are. No setting of
// the loader helps then.
func (s *situation) lockedOut() bool {
	part := s.at(trace.Locked)
	return part >= moderate && 2*part >= s.time.DataShare()
}

// where names the costliest line after a sentence about what threads do: of the first of these with a line that is worth
// naming. It is empty where none has one.
func (s *situation) where(at ...trace.Doing) string {
	for _, at := range at {
		if c, ok := lines.Most(s.lines, at); ok && c.Part >= moderate {
			return s.whereOf(at, c)
		}
	}
	return ""
}

// inStep names the line that takes most of what the step loop does: of the script's own, else of what PyTorch runs for it.
func (s *situation) inStep() string {
	at := trace.InStep
	if _, ok := s.costliest(at); !ok {
		if i := slices.IndexFunc(s.lines, func(c lines.Cost) bool { return c.At.OfStep() && c.File != "" }); i >= 0 {
			at = s.lines[i].At
		}
	}
	return s.where(at)
}

// whereOf names a line in a clause of its own, which tells first what its share is a share of.
func (s *situation) whereOf(at trace.Doing, c lines.Cost) string {
	of := "of loading"
	if at.OfLoop() {
		of = "of the loop's time"
	}
	text := fmt.Sprintf("; %s %s is at %s", units.Prose.Percent(c.Part), of, c.Named())
	switch c.At {
	case trace.Awaited:
		text += ", in " + otherThread(&c) + ", for which it waits"
	case trace.Starting:
		text += ", as workers start"
	}
	return text
}
