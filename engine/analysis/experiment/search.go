package experiment

import (
	"slices"
	"strconv"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

const (
	worth     = stats.DefaultMargin // predicted gain below which a setting is not tried
	alike     = 0.01                // predicted rates this close are the same, and the cheaper setting goes first
	upwards   = 0.005               // predicted gain below which the climb is over
	climbs    = 6                   // the most knobs that differ from the best measured setting
	mostAsked = 2                   // settings that are tried because the advisor would, though the model expects no gain
)

// search chooses which setting a tune tries next.
type search struct {
	e        *Experiment
	tuning   *Tuning
	space    *space
	points   *points
	outlooks *outlooks
	journal  *journal

	tried  map[string]bool  // settings, by key
	closed [][]knob.Setting // settings over a limit; all that take more are over it too
	varied map[string]bool  // knobs that were tried
	asked  int              // how many settings the advisor has chosen
	short  bool             // the budget had no room for a setting that is worth a try
}

// choose returns the setting to try next, or false where none is worth it. The model goes
// first, then the advisor, whose rules know causes that the model does not.
func (t *search) choose(s *trace.Snapshot) (outlook, bool) {
	for {
		o, ok := t.favourite(t.climb())
		if !ok || o.rate < t.points.best().rate()*(1+worth) {
			return t.advised(s)
		}
		if t.allows(&o) {
			return o, true
		}
	}
}

// climb looks for the fastest settings in the models. It starts from the best measured setting and
// changes one knob at a time, as long as that is predicted to help. It returns all settings on the
// way that were not tried.
func (t *search) climb() (pool []outlook) {
	at, rate := t.points.best().knobs, t.points.best().rate()
	for range climbs {
		var here []outlook
		t.space.around(at, func(knobs []knob.Setting) {
			if o := t.outlooks.of(knobs); o.known() && !t.over(knobs) {
				here = append(here, o)
			}
		})
		for _, o := range here {
			if !t.tried[t.space.key(o.knobs)] {
				pool = append(pool, o)
			}
		}
		top, ok := t.favourite(here)
		if !ok || top.rate < rate*(1+upwards) {
			break
		}
		at, rate = top.knobs, top.rate
	}
	return pool
}

// favourite returns the setting that is expected to be the fastest. Of equally fast ones it
// returns the one that takes the least of the host.
func (t *search) favourite(pool []outlook) (top outlook, ok bool) {
	most := 0.0
	for i := range pool {
		most = max(most, pool[i].rate)
	}
	for i := range pool {
		if o := &pool[i]; o.rate >= most*(1-alike) && (!ok || t.space.cheaper(o.knobs, top.knobs)) {
			top, ok = *o, true
		}
	}
	return top, ok
}

// over reports whether a setting takes at least as much as one that is over a limit.
func (t *search) over(knobs []knob.Setting) bool {
	return slices.ContainsFunc(t.closed, func(o []knob.Setting) bool { return covers(knobs, o) })
}

// allows reports whether a setting keeps within the limits.
func (t *search) allows(o *outlook) bool {
	if t.tuning.Needs == nil {
		return true
	}
	host, refusal := t.tuning.Needs(advice.Changed(t.e.target, o.knobs))
	if refusal == "" && t.tuning.Memory > 0 && host > t.tuning.Memory {
		refusal = "it needs " + units.Prose.Bytes(host) + " of the host's memory, over the budget of " + units.Prose.Bytes(t.tuning.Memory)
	}
	if refusal == "" {
		return true
	}
	t.close(o)
	t.journal.notTried(t.points.best(), o, refusal)
	return false
}

// close leaves out a setting and all that take more.
func (t *search) close(o *outlook) { t.closed = append(t.closed, o.knobs) }

// take records that a setting is tried.
func (t *search) take(o *outlook) {
	t.tried[t.space.key(o.knobs)] = true
	for _, k := range advice.Chosen(t.points.best().knobs, o.knobs) {
		t.varied[k.Name] = true
	}
}

// advised returns a setting that the advisor would try and that was not tried.
func (t *search) advised(s *trace.Snapshot) (outlook, bool) {
	best := t.points.best()
	if t.asked == mostAsked || t.outlooks.most(best, best.knobs) < best.rate()*(1+worth) {
		return outlook{}, false
	}
	if t.tuning.Window != nil {
		s = t.tuning.Window(best.from, best.to)
	}
	for _, f := range advice.Of(s, s.Tally(best.segment), attribution.Segments(s)).Findings {
		i := slices.Index(t.space.names, f.Knob)
		if i < 0 {
			continue
		}
		value, ok := nearest(t.space.sets[i], knob.ValueOf(best.knobs, f.Knob), f.Value)
		if !ok {
			continue
		}
		o := t.outlooks.of(t.space.with(best.knobs, f.Knob, value))
		hopeful := !o.known() || o.hi > best.rate()
		if !hopeful || t.tried[t.space.key(o.knobs)] || t.over(o.knobs) || !t.allows(&o) {
			continue
		}
		t.asked++
		o.advised = f.Evidence
		return o, true
	}
	return outlook{}, false
}

// nearest is the value of a set that stands for an advised one: that one or, of numbers, which are in order
// there, the first beyond it as seen from the value in force. Where there is none, it is the last before it.
func nearest(set []string, now, advised string) (value string, ok bool) {
	if slices.Contains(set, advised) {
		return advised, true
	}
	from, err := strconv.Atoi(now)
	to, wrong := strconv.Atoi(advised)
	if err != nil || wrong != nil {
		return "", false
	}
	set = slices.Clone(set)
	if to < from {
		slices.Reverse(set)
	}
	for _, v := range set {
		n := number(v)
		if (n > from) != (to > from) || n == from {
			continue
		}
		value, ok = v, true
		if (n > to) == (to > from) {
			break
		}
	}
	return value, ok
}

// lighter returns an untried setting with far fewer workers that is expected to be as fast as the
// best one, even with a fifth of its workers taken away.
func (t *search) lighter() (outlook, bool) {
	best := t.points.best()
	i := slices.Index(t.space.names, numWorkers)
	if i < 0 {
		return outlook{}, false
	}
	for _, v := range t.space.sets[i] { // fewest first
		o := t.outlooks.of(t.space.with(best.knobs, numWorkers, v))
		fewer := 4 * number(v) / 5
		if fewer == 0 || t.tried[t.space.key(o.knobs)] || !t.space.lighter(o.knobs, best.knobs) {
			continue
		}
		if spare := t.outlooks.of(t.space.with(best.knobs, numWorkers, strconv.Itoa(fewer))); t.asFast(o) && t.asFast(spare) {
			o.light = true
			return o, true
		}
	}
	return outlook{}, false
}

// asFast reports whether a setting is expected to be as fast as the best one.
func (t *search) asFast(o outlook) bool { return o.rate >= t.points.best().rate()*(1-alike) }

// leaveOut records what was expected of the knobs that were not tried at all.
func (t *search) leaveOut() {
	best := t.points.best()
	for _, why := range t.space.idle {
		t.journal.leaveOut(why + ": " + string(trace.NotTried))
	}
	if most := t.outlooks.most(best, best.knobs); most < best.rate()*(1+worth) {
		t.journal.leaveOut("the device computes " + units.Prose.Percent(best.util()) +
			" of the time: no other setting of the loader can gain more than " + units.Prose.Gain(units.Rough(most/best.rate())))
		return
	}
	for i, name := range t.space.names {
		if t.varied[name] {
			continue
		}
		var pool []outlook
		for _, v := range t.space.sets[i] {
			to := t.space.with(best.knobs, name, v)
			if o := t.outlooks.of(to); o.known() && !slices.Equal(to, best.knobs) && !t.over(to) {
				pool = append(pool, o)
			}
		}
		if o, ok := t.favourite(pool); ok && o.rate >= best.rate()*(1+worth) {
			t.short = true
			t.journal.notTried(best, &o, "there is no budget left for it")
		} else if ok {
			t.journal.notTried(best, &o, "")
		}
	}
}
