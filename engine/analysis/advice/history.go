package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// history is what the session has measured of other settings.
type history struct {
	session *session
	knobs   *inForce

	segment    int32 // of the steps judged
	trials     []Trial
	rows       []attribution.SegmentStats
	notApplied []string // notes on changes that could not be made
}

// refused reports whether advice should leave a value alone. This is so if the value could not be
// applied, or if going back to it, or beyond it, would undo a gain. Where a knob gained by becoming
// 0, no other number is advised. A value is also refused if it was tried, gained nothing and is no
// longer in force, or if an A/B test of it ended undecided.
//
// For a number, that excludes more values. These are the values beyond one that was tried in vain
// from this side, and the values on the way to one that made no difference. The exclusion ends
// when another knob gains something, which may have moved the bottleneck. An unclear trial counts
// as one without a difference, if it looks slower, or lacks only precision and hardly looks better. It does not where other
// processes used the cores otherwise meanwhile, unless two such trials looked slower.
func (h *history) refused(knob, value string) bool {
	now := h.knobs.value(knob)
	for _, note := range h.notApplied {
		if strings.HasPrefix(note, knob+" "+now+" -> "+value+trace.NotApplied) {
			return true
		}
	}
	terms, slower := termsOf(h.knobs.settings), 0
	for i := range h.trials {
		t := &h.trials[i]
		if t.Knob != knob || t.terms != terms {
			continue
		}
		if t.Outcome == Gain && t.To == now && (t.From == value || beyond(now, t.From, value) || now == "0" && !h.movedSince(t)) {
			return true // going back would be a loss; so would any number of workers, if some cost more than they gained
		}
		if t.undecided && t.To == value && t.To != now && !h.movedSince(t) {
			return true // another test of as long would hardly tell more
		}
		if !t.failed() {
			continue
		}
		if t.To == value && t.To != now {
			return true
		}
		if h.movedSince(t) {
			continue
		}
		if t.Outcome == Unclear {
			if t.slower() && between(t.From, t.To)*between(now, value) > 0 {
				slower++
			}
			if t.meanwhile() != "" && slower < 2 || !t.slower() && t.Change.Throughput.Missing.What != stats.Precision {
				continue
			}
		}
		if t.ahead(now, value) {
			return true
		}
	}
	return false
}

// despite says what speaks against a value although it is advised: a trial on the way to it that looked slower, which counts for
// nothing because other processes used the cores otherwise meanwhile.
func (h *history) despite(f *Finding) string {
	for i := range h.trials {
		t := &h.trials[i]
		if t.Knob == f.Knob && t.Outcome == Unclear && t.slower() && t.meanwhile() != "" && !h.movedSince(t) && t.ahead(h.knobs.value(f.Knob), f.Value) {
			return fmt.Sprintf("%s %s -> %s looked slower (%s), %s", t.Knob, t.From, t.To, units.Prose.Gain(units.Rough(t.Change.Throughput.Estimate().Value)), t.meanwhile())
		}
	}
	return ""
}

// movedSince reports whether another knob gained something after a trial.
func (h *history) movedSince(t *Trial) bool {
	return slices.ContainsFunc(h.trials, func(o Trial) bool {
		return o.Segment > t.Segment && o.Knob != t.Knob && o.Outcome == Gain
	})
}

// measuredSame returns the smallest value of a knob that was measured as fast as the value in
// force.
func (h *history) measuredSame(knob string) (value int, found bool) {
	now := h.knobs.value(knob)
	for _, t := range h.trials {
		if t.Knob != knob || t.Outcome != NoGain {
			continue
		}
		other := t.From
		switch now {
		case t.To:
		case t.From:
			other = t.To
		default:
			continue
		}
		if n, err := strconv.Atoi(other); err == nil && n > 0 && (!found || n < value) {
			value, found = n, true
		}
	}
	return value, found
}

// gained returns the newest trial of going from a knob's value in force to another, if that was a gain.
func (h *history) gained(knob, to string) (Trial, bool) {
	t, ok := measured(h.trials, h.knobs.settings, knob, to)
	return t, ok && t.Outcome == Gain
}

// measured returns the newest trial with an answer in which a knob went from its value among settings to
// another. If the knob went the other way round, measured reverses the trial.
func measured(trials []Trial, settings []knob.Setting, name, to string) (Trial, bool) {
	now, terms := knob.ValueOf(settings, name), termsOf(settings)
	for _, t := range slices.Backward(trials) {
		if t.Knob != name || t.terms != terms || t.Outcome == Unclear {
			continue
		}
		if t = t.Toward(to); t.From == now && t.To == to {
			return t, true
		}
	}
	return Trial{}, false
}

// prefer changes the number that a finding advises to the number with the largest measured gain, on
// the same side of the value in force. It does not if the prediction is certain to be better than
// that.
func (h *history) prefer(f *Finding) {
	ahead := between(h.knobs.value(f.Knob), f.Value)
	var best Trial
	for i := range h.trials {
		for _, value := range [...]string{h.trials[i].From, h.trials[i].To} {
			if t, ok := h.gained(f.Knob, value); ok && between(t.From, value)*ahead > 0 && t.Change.Throughput.Ratio > best.Change.Throughput.Ratio {
				best = t
			}
		}
	}
	if best.To == "" || best.To == f.Value {
		return
	}
	if p, known := h.knobs.predict(knob.Setting{Name: f.Knob, Value: f.Value}); known && !predict.Vague(p) && predict.Gain(p).Lo > best.Change.Throughput.Ratio {
		return
	}
	f.Value, f.Remedy = best.To, h.knobs.turn(f.Knob, best.To, "").Remedy
}

// again looks for an earlier segment that had the settings of a finding. If there is something to
// do about that segment, again rewrites the finding: to go back, or to let both take turns. It
// returns true then, and if it cannot compare the segments. It returns false if the settings were
// no faster there, because another try is not worth it.
func (h *history) again(f *Finding) bool {
	trial, gained := h.gained(f.Knob, f.Value)
	if by := trial.Change.ByTurns(); gained && by != "" { // whatever the script did meanwhile, both met the same host
		f.Remedy, f.Evidence = "go back to "+f.Knob+" "+f.Value, fmt.Sprintf("both took turns, and it had %v throughput, by %s", &trial.Change.Throughput, by)
		f.Measured = trial.Change.Throughput.Estimate()
		return true
	}
	here, there := h.row(h.segment), h.had(f.Knob, f.Value)
	if here == nil || there == nil {
		return true
	}
	c := there.VsA
	if !here.Baseline {
		c = attribution.Compare(h.rows, here, there)
	}
	if gained {
		c = trial.Change
	}
	t := &c.Throughput
	if t.Ratio <= 0 || !equalTerms(h.session.Snapshot, here, there) {
		return true
	}
	had := fmt.Sprintf("segment %s had it, ", there.Name())
	switch doubt := Unearned(h.session.Snapshot, here, there, &c); {
	case doubt != "":
		f.takeTurns(had + "but " + doubt)
	case t.Answer == stats.Different && t.Ratio > 1:
		f.Remedy, f.Evidence = "go back to "+f.Knob+" "+f.Value, fmt.Sprintf("%swith %v throughput", had, t)
		f.Measured = t.Estimate()
	case t.Answer == stats.Unknown && t.Ratio >= 1+moderate:
		f.takeTurns(fmt.Sprintf("%sand its gain is %v", had, t))
	default:
		return false
	}
	return true
}

// row returns the row of a segment; nil where it has none.
func (h *history) row(segment int32) *attribution.SegmentStats {
	for i := range h.rows {
		if h.rows[i].Segment.Index == segment {
			return &h.rows[i]
		}
	}
	return nil
}

// had returns the last segment that differs from the settings in force only in one knob, which had
// this value. It is nil where none has enough steps.
func (h *history) had(name, value string) *attribution.SegmentStats {
	for i := len(h.rows) - 1; i >= 0; i-- {
		r := &h.rows[i]
		if changed, alone := changedAlone(h.knobs.settings, r.Segment.Knobs); r.Steps >= MinSteps && alone && changed == name && knob.ValueOf(r.Segment.Knobs, name) == value {
			return r
		}
	}
	return nil
}
