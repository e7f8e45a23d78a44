package panel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// holdFor is how long the words about the longest stall stay, so that they can be read. It is in
// ns of the session's time.
const holdFor = int64(2e9)

// record is what the session recorded in the window of the timeline.
type record struct {
	spans []trace.Span
	steps []trace.Step // the newest, in order
	edge  int64        // ns where the window ends
	durs  []int64      // scratch of rank
}

// Explain puts the moment under the cursor into words or, without a cursor, the longest stall
// in view. The text changes only when its subject changes. While the screen moves, the text
// about the longest stall stays for holdFor.
func (t *Timeline) Explain(v *View) { t.explain(v.Pic, v.Paused, v.Focused, !v.Frozen) }

func (t *Timeline) explain(p *Picture, paused, focused, moves bool) {
	var g attribution.Gap
	at := int64(-1)
	if t.cursor >= 0 {
		at = t.cursor / t.Bin() * t.Bin()
		g = t.gapIn(at, at+t.Bin())
	} else {
		g = t.longestGap(t.first * t.Bin())
	}
	key := [3]int64{at, -1, int64(t.cols)<<8 | int64(t.zoom)}
	unknown := t.known <= t.first*t.Bin()
	switch {
	case g.Any():
		key[1] = g.Start
	case unknown && paused:
		key[1] = -2
	case len(p.Snap.Recent) == 0:
		key[1] = -4
	case unknown:
		key[1] = -3
	}
	if at < 0 && len(t.said.lines) > 0 {
		held := moves && t.said.about[0] < 0 && t.said.about[1] >= 0 && key[2] == t.said.about[2] && t.edge-t.said.from < holdFor
		if key == t.said.about || held {
			return
		}
	}
	t.said.about, t.said.from = key, t.edge
	text := ""
	switch {
	case g.Any():
		text = t.gapText(&p.Snap, &g, at)
	case at >= 0:
		text = t.momentText(at, at+t.Bin())
	case unknown && paused:
		text = "paused: nothing runs on the device"
	case len(t.spans) == 0:
		text = "nothing recorded in this window"
	case len(p.Snap.Recent) == 0:
		text = "no step has ended yet: time is charged to causes from the first one on"
	case unknown:
		text = "no step has ended in this window: its stalls are not known yet"
	default:
		text = "no stall in view: the device never waited"
	}
	w := t.cols + laneLabel + laneShare - 2
	t.said.lines = canvas.Wrap(text, w)
	t.said.ofDevice = len(t.said.lines)
	if at >= 0 {
		t.said.lines = append(t.said.lines, canvas.Wrap(t.workersAt(at, at+t.Bin()), w)...)
	}
	t.said.tall.need(len(t.said.lines))
	if at < 0 && focused {
		t.said.lines = append(t.said.lines, "left and right ask about a moment")
	}
}

// longestGap returns the longest gap that ends after from. It ignores pauses, because the user
// knows of them.
func (c *record) longestGap(from int64) (longest attribution.Gap) {
	for g := range attribution.Gaps(c.spans) {
		inView := g.Start <= c.edge && g.End > from
		if inView && g.Parts[trace.CausePaused] == 0 && g.End-g.Start > longest.End-longest.Start {
			longest = g
		}
	}
	return longest
}

// gapIn returns the gap that covers most of [from, to), if any does.
func (c *record) gapIn(from, to int64) (in attribution.Gap) {
	most := int64(0)
	for g := range attribution.Gaps(c.spans) {
		if over := min(g.End, to) - max(g.Start, from); over > most {
			in, most = g, over
		}
		if g.Start >= to {
			break
		}
	}
	return in
}

// most returns the span that covers most of [from, to) among those wanted.
func (c *record) most(from, to int64, want func(*trace.Span) bool) int {
	best, most := -1, int64(0)
	for i := range c.spans {
		s := &c.spans[i]
		if s.Start >= to {
			break
		}
		if over := min(s.End, to) - max(s.Start, from); over > most && want(s) {
			best, most = i, over
		}
	}
	return best
}

// ago writes how long before the right edge ns is.
func (c *record) ago(ns int64) string { return "-" + units.Prose.Time(max(0, c.edge-ns)) }

// gapText explains a gap: what it consists of, which batch the device waited for, what the worker
// of that batch did and how unusual that is.
func (c *record) gapText(snap *trace.Snapshot, g *attribution.Gap, at int64) string {
	s := g.Largest
	cause := s.Cause()
	var b strings.Builder
	if at >= 0 {
		b.WriteString(c.ago(at) + ": ")
	} else {
		b.WriteString("longest: ") // without a time, which would be wrong in the next frame
	}
	long := units.Prose.Time(g.End - g.Start)
	if cause == trace.CausePaused {
		return b.String() + Pick(snap.EvaluatedAt((s.Start+s.End)/2), "the model was evaluated for ", "paused by you for ") + long
	}
	parts, idle := partsText(g), Pick(snap.Meta.DeviceKind == "cuda", "GPU", "device")+" idle "+long
	batch := s.Batch
	known := batch >= 0
	if !known {
		batch, known = attribution.Awaited(c.spans, s.Start, s.End)
		known = known && batch >= 0
	}
	of := ""
	if known {
		of = "batch " + units.Count(batch)
	}
	if !cause.IsData() {
		words := cause.Info().Means
		if cause == trace.CauseLaunch { // the spans tell which of its two reasons applies
			enqueuing := c.most(s.Start, s.End, func(o *trace.Span) bool { return o.Kind == trace.KindEnqueue && o.Step == s.Step }) >= 0
			words = Pick(enqueuing, "the host was still enqueuing", "launch overhead")
		}
		return b.String() + idle + parts + ": " + words + Pick(of == "", "", ", "+of)
	}
	b.WriteString(idle + " waiting for " + cmp.Or(of, "data") + parts)
	w := -1
	if known {
		w = c.builder(s, batch, cause)
	}
	if cause == trace.CauseSampler {
		w = -1 // no worker is the reason
	}
	if w < 0 || !becomes(c.spans[w].Kind, cause) { // the phase named below may say the cause
		b.WriteString(" by " + cause.String() + ", " + cause.Info().Means)
	}
	if w >= 0 {
		o := &c.spans[w]
		took, rank := c.rank(batch, o.Kind)
		split := c.split(s.Step, o.Kind)
		took = max(took, split.Total()) // spans of it may lie before the view
		if cause == trace.CauseCollate && 2*(min(o.End, s.End)-max(o.Start, s.Start)) < s.End-s.Start {
			rank = ", then the hand-over"
		}
		if o.Mix() != 0 {
			rank += ", divided as other batches were"
		}
		b.WriteString(": " + o.Track.String() + " " + o.Kind.String() + " took " + units.Prose.Time(took) + attribution.Waiting(split) + rank)
	}
	return b.String()
}

// partsText names the parts of a gap that are at least a hundredth of it, the largest first. It
// returns nothing where there is only one.
func partsText(g *attribution.Gap) string {
	var causes []trace.Cause
	for c, ns := range g.Parts {
		if 100*ns >= g.End-g.Start {
			causes = append(causes, trace.Cause(c))
		}
	}
	if len(causes) < 2 {
		return ""
	}
	slices.SortStableFunc(causes, func(a, b trace.Cause) int { return cmp.Compare(g.Parts[b], g.Parts[a]) })
	words := make([]string, len(causes))
	for i, c := range causes {
		words[i] = c.String() + " " + units.Prose.Time(g.Parts[c])
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// becomes reports whether a stall is charged to the cause while a worker is in phase k.
func becomes(k trace.Kind, cause trace.Cause) bool {
	c, ok := k.Cause()
	return ok && c == cause
}

// builder returns a span of the worker of a batch during a stall: the phase that the cause
// names, or else the longest span.
func (c *record) builder(s *trace.Span, batch int32, cause trace.Cause) int {
	of := func(o *trace.Span) bool {
		return o.Batch == batch && o.Track.IsLoader() && o.Kind != trace.KindBlocked
	}
	i := c.most(s.Start, s.End, func(o *trace.Span) bool { return of(o) && becomes(o.Kind, cause) })
	if i < 0 {
		i = c.most(s.Start, s.End, of)
	}
	return i
}

// split returns how a phase of the step's batch divides into computing and waits, where that was
// measured.
func (c *record) split(step int32, kind trace.Kind) trace.Split {
	i, found := slices.BinarySearchFunc(c.steps, step, func(s trace.Step, index int32) int { return cmp.Compare(s.Index, index) })
	if !found || !kind.IsPhase() {
		return trace.Split{}
	}
	return *c.steps[i].Work.Phases.Of(kind)
}

// rank compares the time of a batch in one phase with that of all other batches built within view.
// A phase of one batch may be many spans, so it sums them.
func (c *record) rank(batch int32, kind trace.Kind) (took int64, words string) {
	type sum struct {
		ns          int64
		whole, born bool
	}
	sums := map[int32]*sum{}
	for i := range c.spans {
		s := &c.spans[i]
		if !s.Track.IsLoader() || s.Batch < 0 || s.Kind == trace.KindBlocked {
			continue
		}
		b := sums[s.Batch]
		if b == nil { // a batch begins with a read, so a batch whose first span is a read began in view
			b = &sum{born: s.Kind == trace.KindRead}
			sums[s.Batch] = b
		}
		b.whole = b.whole || s.Kind == trace.KindCollate
		if s.Kind == kind {
			b.ns += s.End - s.Start
		}
	}
	c.durs = c.durs[:0]
	for n, b := range sums {
		if n == batch {
			took = b.ns
		}
		if b.born && b.whole {
			c.durs = append(c.durs, b.ns)
		}
	}
	if len(c.durs) < 5 {
		return took, ""
	}
	slices.Sort(c.durs)
	p50, p99 := quantile(c.durs, 0.5), quantile(c.durs, 0.99)
	words = ", p50 " + units.Prose.Time(p50) + " p99 " + units.Prose.Time(p99)
	switch {
	case took >= p99 && took > p50+p50/2:
		words += ": slowest 1%"
	case took > p50+p50/2:
		words += ": slow"
	}
	return took, words
}

// momentText says what the device did in [at, to) when it did not stall.
func (c *record) momentText(at, to int64) string {
	i := c.most(at, to, func(s *trace.Span) bool { return s.Track == trace.TrackCompute && s.Kind == trace.KindCompute })
	if i < 0 {
		return c.ago(at) + ": nothing recorded on the device"
	}
	s := &c.spans[i]
	text := c.ago(at) + ": step " + units.Count(s.Step) + " computes "
	if s.Batch >= 0 {
		text += "batch " + units.Count(s.Batch) + " "
	}
	text += "for " + units.Prose.Time(s.End-s.Start)
	if i := c.most(at, to, func(s *trace.Span) bool { return s.Kind.IsPart() }); i >= 0 {
		text += "; the script: " + c.spans[i].Kind.Info().Doing + ", " + units.Prose.Time(c.spans[i].End-c.spans[i].Start)
	}
	if s.Flags&trace.FlagTimed != 0 {
		text += " (its ops were timed, which makes it longer)"
	}
	return text
}

// workersAt lists what each worker did in [from, to).
func (t *Timeline) workersAt(from, to int64) string {
	var b strings.Builder
	for li := range t.lanes {
		l := &t.lanes[li]
		if l.typ != lanePhases {
			continue
		}
		i := t.most(from, to, func(s *trace.Span) bool { return s.Track == l.track })
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(l.track.String())
		if i < 0 {
			b.WriteString(" idle")
			continue
		}
		s := &t.spans[i]
		if s.Kind == trace.KindBlocked {
			b.WriteString(" " + trace.BlockReason(s.Arg).Info().Says)
			continue
		}
		b.WriteString(" " + s.Kind.String())
		if s.Batch >= 0 {
			b.WriteString(" #" + strconv.Itoa(int(s.Batch)))
		}
	}
	return b.String()
}
