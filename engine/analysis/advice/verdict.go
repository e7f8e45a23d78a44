package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// These are the TensorFlow profiler's thresholds (input-pipeline analyzer). Under 5 %
// of the step a program is not input-bound, and from 20 % it is highly so. The other
// classes begin at the lower threshold.
const (
	moderate = 0.05
	high     = 0.20
)

// Thresholds returns the shares of the time lost to data from which a run is moderately
// and highly input-bound.
func Thresholds() (moderately, highly float64) { return moderate, high }

// MinSteps is how many steady steps make a result. A verdict on fewer steps would rest on
// noise.
const MinSteps = 10

// enough returns how many steady steps a session's verdict needs. An imported trace has only the
// steps that somebody chose to record, so its verdict takes what there is.
func enough(s *trace.Snapshot) int {
	if s.Meta.Imported != "" {
		return 1
	}
	return MinSteps
}

// Classes of a verdict that are no group of causes; trace.GroupInfo has the others.
const (
	NotEnoughSteps = "not enough steps"
	DeviceBound    = "device-bound"
	ScriptBound    = "script-bound"    // of a training in PyTorch: its script takes the time, also where that is the device
	NotInputBound  = "not input-bound" // of a trace that lacks what the device did
)

// States of the ready queue; empty when there is nothing to tell them from.
const (
	QueueCPU    = "CPU-bound loader"   // empty, and the workers are computing
	QueueCores  = "loader CPU-starved" // empty, and the workers wait for cores
	QueueIO     = "I/O-bound loader"   // empty, and the workers wait for reads
	QueueDevice = "device-bound"       // full
)

// Verdict says what holds the device up. It promises nothing: each share and ratio in it was
// measured.
type Verdict struct {
	Class    string
	Group    trace.Group // which the class is named after; GroupNone where no cause is to blame
	Moderate bool        // the share lost to data is not high yet, and the class says so
	Dominant trace.Cause // the largest cause of the group; CauseUnknown where none is named
	Share    float64     // of the active time lost to the class, 0 to 1
	Holder   string      // of communication: the rank that this one waits for, and what that rank does; empty where not known
	Locked   bool        // the script's own thread waits for the GIL, which another one holds
	Aside    bool        // loops that do not train take most of what can be saved; Share is their part of all time
	Starved  float64     // share of the time in which the device's threads could run and had no core; 0 where they are not the host's
	Queue    string
	Steps    int     // that it rests on
	Epochs   string  // of those steps, "epochs 2 and 3", where others were left out; else empty
	Excluded int     // steps left out: transition, warm-up, and first epochs that differ
	Labels   []Label // of the steps it rests on
	Text     string  // one line, labels included
	Brief    Brief   // of Text
	Basis    string  // the end of Text, where it only names the steps and the labels
}

// Judge looks at the steady steps of one segment: all of them, or a window.
func Judge(s *trace.Snapshot, t *trace.Tally) Verdict {
	v, _ := verdict(s, t, nil, nil)
	return v
}

// verdict does what Judge does, and also returns the situation that the verdict rests on. The
// situation is nil where there are not enough steps.
func verdict(s *trace.Snapshot, t *trace.Tally, rows []attribution.SegmentStats, trials []Trial) (Verdict, *situation) {
	all := t.All.Steps
	t, settling := settled(s, t)
	v := Verdict{Dominant: trace.CauseUnknown, Steps: int(t.Steady.Steps), Excluded: int(all - t.Steady.Steps), Labels: Labels(s, t)}
	if v.Steps < enough(s) {
		v.Class = NotEnoughSteps
		v.Basis = Brackets(v.Labels)
		v.Text = fmt.Sprintf("not enough steps: %d of %d with these settings are steady, a verdict needs %d%s", v.Steps, all, MinSteps, v.Basis)
		return v, nil
	}
	c := newSituation(s, t, rows, trials)
	c.time.settling, v.Epochs = settling, settling.judged()
	v.Starved, v.Queue = c.host.starved, c.loader.queue()
	was := trace.GroupNone
	if settling == nil {
		was = groupBefore(s, t)
	}
	v.classify(&c.time.Breakdown, c.host.Crowded(), was)
	// A step lacks no core while it sleeps.
	if asleep := c.script.blocked() * c.time.Utilisation(); v.Group == trace.GroupHost && c.script.scripted() && asleep > v.Share {
		v.Group, v.Share, v.Dominant = trace.GroupNone, c.time.Utilisation(), trace.CauseUnknown
		if data := c.time.DataShare(); data >= moderate {
			v.take(&c.time.Breakdown, trace.GroupData, data)
		}
	}
	if share, group := c.fewKernels(); group != trace.GroupNone && (v.Group == trace.GroupNone || share > v.Share) {
		v.Group, v.Class, v.Share, v.Moderate = group, group.Info().Class, share, false
		v.Dominant = dominant(&c.time.Breakdown, group)
	}
	if v.Group == trace.GroupUnknown && c.script.alone() {
		if c.learns() {
			v.scripts(c.time.Utilisation() + c.forward())
		} else if _, ok := c.costliest(trace.InStep); ok {
			v.Class = ScriptBound
		}
	}
	if v.Group == trace.GroupUnknown && c.profile.gaps(v.Share) == gapScript {
		v.Class = ScriptBound
	}
	h, ok, late := c.script.waitsFor()
	if share := c.talks(); share >= moderate && c.at(trace.Exchange) > 0 && share > v.Share || share >= moderate && v.Group == trace.GroupNone && !late {
		v.communicates(share)
	}
	if ok && h.share >= moderate && (v.Group == trace.GroupNone || h.share > v.Share || v.Group == trace.GroupCommunication && 2*h.share >= v.Share) {
		v.communicates(h.share)
		v.Holder = c.script.describe(h)
	}
	if part := c.at(trace.Locked); c.lockedOut() && (v.Group == trace.GroupNone || v.Group == trace.GroupData || 2*part >= v.Share) && v.Group != trace.GroupCommunication {
		v.scripts(part)
		v.Locked = true
	} else if f, ok := evaluation(c); ok && v.Group != trace.GroupCommunication && v.beaten(c, &f) {
		v.scripts(f.Share)
		v.Aside = true
	} else if f, ok := restOfScript(c); ok && (v.Moderate && f.Share >= dwarfed*v.Share || v.Group == trace.GroupHost && c.host.Crowded() && f.Share > v.Share) {
		v.scripts(c.time.Utilisation())
	} else if v.Group == trace.GroupNone {
		switch {
		case c.profile.unseen():
			v.Class = NotInputBound
		case c.script.scripted():
			v.Class = ScriptBound
		}
	}
	v.describe(c)
	return v, c
}

// scripts makes the verdict that the script itself takes so much of the time.
func (v *Verdict) scripts(share float64) {
	v.Group, v.Class, v.Share, v.Dominant, v.Moderate, v.Queue = trace.GroupNone, ScriptBound, share, trace.CauseUnknown, false, ""
}

// beaten reports whether loops beside the training cost more than what the verdict is about. Where they take less than
// mostBeside, they must also cost more than what the script computes in its steps.
func (v *Verdict) beaten(s *situation, beside *Finding) bool {
	lost := v.Share
	if v.Group == trace.GroupNone || v.Group == trace.GroupHost && s.host.Crowded() && !s.host.spun {
		lost = 0
	}
	if beside.Share < mostBeside {
		if s.calls(trace.InStep) {
			return false
		}
		if f, ok := restOfScript(s); ok && !f.given {
			lost = max(lost, f.Share)
		}
	}
	return muchAside(beside.Share, lost)
}

// groupBefore returns the group that the steps just before a window are classed by, over as much
// time in the same segment. It is GroupNone where there are too few such steps, as when the window
// is a whole segment.
func groupBefore(s *trace.Snapshot, t *trace.Tally) trace.Group {
	end, found := slices.BinarySearchFunc(s.Recent, t.First, func(st trace.Step, first int32) int { return cmp.Compare(st.Index, first) })
	from := end
	for from > 0 && s.Recent[from-1].Segment == t.Segment && s.Recent[from-1].Start >= t.Start-(t.End-t.Start) {
		from--
	}
	if !found || end-from < MinSteps {
		return trace.GroupNone
	}
	before := trace.Count(s.Recent[from:end])
	if before.Steady.Steps < MinSteps {
		return trace.GroupNone
	}
	v := Verdict{Starved: WithoutCore(s, before)}
	cores := predict.CoresOf(s, before.From, before.To)
	v.classify(&attribution.Breakdown{Totals: before.Steady}, cores.Crowded(), trace.GroupNone)
	return v.Group
}

// classify chooses the group of causes that costs most. Groups of one class count together. On a
// crowded host a high wait for data goes before the lack of cores, because other processes cause
// the latter. The group of the time before, was, must be clearly beaten. Otherwise the class would
// change as shares fluctuate.
func (v *Verdict) classify(b *attribution.Breakdown, crowded bool, was trace.Group) {
	v.Class, v.Share = DeviceBound, b.Utilisation()
	best, data, last := moderate, 0.0, 0.0
	for g := range trace.NumGroups {
		class := g.Info().Class
		if class == "" {
			continue
		}
		var lost int64
		for c := range trace.Cause(trace.NumCauses) {
			if c.Group().Info().Class == class {
				lost += b.Stall[c]
			}
		}
		if g == trace.GroupHost {
			lost += starved(b, v.Starved)
		}
		if g == trace.GroupCommunication && b.Of(lost) <= muchCommunication {
			continue
		}
		share := b.Of(lost)
		if g == trace.GroupData {
			data = share
		}
		if g == was {
			last = share
		}
		if share >= best {
			best, v.Group, v.Share = share, g, share
		}
	}
	enough := high
	if was == trace.GroupData {
		enough *= alike
	}
	switch {
	case crowded && v.Group == trace.GroupHost && data >= enough:
		v.Group, v.Share = trace.GroupData, data
	case was != trace.GroupNone && was != v.Group && last >= max(moderate, alike*v.Share):
		v.Group, v.Share = was, last
	}
	if v.Group == trace.GroupNone {
		return
	}
	v.take(b, v.Group, v.Share)
}

// take makes the verdict about a group of causes.
func (v *Verdict) take(b *attribution.Breakdown, g trace.Group, share float64) {
	v.Group, v.Class, v.Share, v.Dominant = g, g.Info().Class, share, dominant(b, g)
	if v.Moderate = g == trace.GroupData && share < high; v.Moderate {
		v.Class = "moderately " + v.Class
	}
}

// dominant returns the cause of a group that costs most.
func dominant(b *attribution.Breakdown, g trace.Group) trace.Cause {
	best, most := trace.CauseUnknown, int64(-1)
	for c := range trace.Cause(trace.NumCauses) {
		if c.Group() == g && b.Stall[c] > most {
			best, most = c, b.Stall[c]
		}
	}
	return best
}

// communicates makes the verdict that other processes are waited for in so much of the time.
func (v *Verdict) communicates(share float64) {
	v.Group, v.Class, v.Share = trace.GroupCommunication, trace.GroupCommunication.Info().Class, share
	v.Dominant, v.Moderate = trace.CauseCommunication, false
}

// describe writes the text.
func (v *Verdict) describe(s *situation) {
	b := &s.time.Breakdown
	var t strings.Builder
	place := "" // the line at which data is waited for
	fmt.Fprintf(&t, "%s: ", v.Class)
	switch {
	case v.Locked:
		fmt.Fprintf(&t, "the loop waits %s of the time for Python's lock (GIL), which %s holds%s", units.Prose.Percent(v.Share), s.otherThread(), s.where(trace.Locked))
	case v.Aside:
		rest := s.busy(s.time.Utilisation())
		if data := s.time.DataShare(); data > s.time.Utilisation() {
			rest = fmt.Sprintf(trace.GroupData.Info().Loses, units.Prose.Percent(data)) + s.where(trace.Loading)
		}
		fmt.Fprintf(&t, "%s of the time goes to %s; in the rest %s", units.Prose.Percent(v.Share), strings.TrimSuffix(trace.AsideLoops, ","), rest)
	case v.Group == trace.GroupNone:
		t.WriteString(s.busy(v.Share))
	case v.Group == trace.GroupHost:
		t.WriteString(s.shortage())
	default:
		t.WriteString(s.loses(v))
		switch { // placed early, for a screen that has room for one line
		case v.Dominant == trace.CauseSampler:
			place = s.where(trace.Sampling)
		case v.Group == trace.GroupData:
			place = s.where(trace.Loading, trace.Sampling)
		case v.Group == trace.GroupCommunication && v.Holder == "":
			place = s.where(trace.Exchange, trace.Backward)
			if h, ok, _ := s.script.waitsFor(); ok && h.share >= moderate { // a lesser part of it
				place = fmt.Sprintf(", and at least %s waiting for %s", units.Prose.Percent(h.share), s.script.describe(h))
			}
		case v.Group != trace.GroupCommunication && v.Group != trace.GroupUnknown:
			place = s.inStep()
		}
		t.WriteString(place)
	}
	queue := v.Queue
	if v.Group == trace.GroupData {
		t.WriteString(s.largest(v, place != ""))
		if bound := boundOf(b, v.Dominant); bound != trace.BoundUnknown {
			which := bound.Info().Which
			if bound == trace.BoundIO && s.loader.locked() {
				which = "which is mostly waiting for a lock that the workers share"
			}
			t.WriteString(", " + which)
			if queue == queues[bound] { // the text has said it
				queue = ""
			}
		}
	}
	t.WriteString(s.traced(v))
	if v.Group != trace.GroupHost && v.Starved >= moderate {
		t.WriteString("; " + s.host.slowed())
		if s.host.Crowded() {
			t.WriteString("; " + s.host.String())
		}
	}
	switch queue {
	case "":
	case QueueDevice:
		t.WriteString("; the ready queue is full")
	default:
		t.WriteString("; " + queue)
	}
	if text := s.time.cost(); text != "" {
		t.WriteString("; " + text)
	}
	v.Basis = "; " + units.Counted(v.Steps, "step", "steps") + Brackets(v.Labels)
	if v.Epochs != "" {
		v.Basis = ""
		fmt.Fprintf(&t, "; %s of %s%s", units.Counted(v.Steps, "step", "steps"), v.Epochs, Brackets(v.Labels))
	}
	v.Text = t.String() + v.Basis
	v.Brief = s.brief(v)
}

// busy says that the device has work for a share of the time.
func (s *situation) busy(share float64) string {
	does, how := "the device computes", ""
	switch {
	case s.profile.unseen():
		does = "what the device did is not in the trace; the host works"
	case s.script.scripted():
		does = "the script is busy"
		if s.script.blocked() >= mostly {
			does, how = "the script is in its own steps", ", most of it blocked"
		}
	case s.script.follows():
		does = "the device has a step"
	}
	if s.learns() {
		return fmt.Sprintf("%s %s of the time, in forward passes %s%s", does, units.Prose.Percent(share), units.Prose.Percent(s.forward()), s.where(trace.Forward))
	}
	text := how + s.inStep() + s.script.untrained()
	if _, known := s.script.kernels(); s.script.follows() && !known {
		text = " and ends each as soon as the script has enqueued it, so that launching may be what takes it" + text
	}
	waits := "waits for no data"
	if data := s.time.DataShare(); data >= 0.0005 {
		waits = "waits for data " + units.Prose.Percent(data)
	}
	joined := " and "
	if text != "" {
		joined = "; it "
	}
	return fmt.Sprintf("%s %s of the time%s%s%s", does, units.Prose.Percent(share), text, joined, waits)
}

// traced returns what only a profiler's trace can add to the verdict.
func (s *situation) traced(v *Verdict) string {
	var t strings.Builder
	if _, ok := lacking(s); ok {
		fmt.Fprintf(&t, "; for %s of the time the trace lacks what the GPU was at", units.Prose.Percent(s.profile.blind()))
	}
	if text := s.profile.meanwhile(v); text != "" && v.Group != trace.GroupNone {
		t.WriteString("; " + text)
	}
	if f, ok := ownLoading(s); ok {
		fmt.Fprintf(&t, "; the range %s, loading by its name, takes %s of the time", units.Line(s.profile.Own.Name), units.Prose.Percent(f.Share))
	}
	return t.String()
}

// largest says for what most of the wait for data is. apart is true after a clause about something else.
func (s *situation) largest(v *Verdict, apart bool) string {
	what, of, share := v.Dominant.Info().For, ", %s of it for %s", s.time.Share(v.Dominant)
	if v.Dominant == trace.CauseDataLoader && s.loader.unseen() {
		what = "workers that were started before gpustall came"
	}
	if apart {
		of = "; %s of the wait is for %s"
	}
	text := fmt.Sprintf(of, part(share/v.Share), what)
	if share < nearlyAll*v.Share {
		text += fmt.Sprintf(" (%s of the time)", units.Prose.Percent(share))
	}
	return text
}

// nearlyAll is the part of a wait from which the rest of it is not worth a number.
const nearlyAll = 0.95

// part says how much of the wait for data the largest of several parts is.
func part(share float64) string {
	switch {
	case share >= nearlyAll:
		return "nearly all"
	case share > 0.5:
		return "most"
	}
	return "the largest part"
}
