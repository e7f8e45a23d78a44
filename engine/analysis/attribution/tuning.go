package attribution

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// tuning reads the result of a tune from its decisions. The result is the newest proof or, before
// there is one, what was measured of the best settings so far.
func (x *Experiment) tuning(s *trace.Snapshot) {
	for i := range s.Segments {
		if g := s.Segments[i].Index; x.Has(g) {
			t := s.Tally(g)
			x.Spent += t.All.Active()
			x.LeftOut += t.Excluded()
		}
	}
	if len(x.Pairs) > 0 {
		x.LeftOut = 0
		x.pairs()
		return
	}
	x.Change.Throughput.Missing = stats.Missing{What: stats.Measurement}
	for i := range x.Decisions {
		d := &x.Decisions[i]
		after := Side{Steps: d.After.Steps, Samples: d.After.Samples, Active: d.After.Active, Busy: d.After.Busy}
		switch d.Verdict {
		case trace.Found:
			x.Sides[0] = after
		case trace.Best:
			x.Sides[1] = after
		case trace.Confirmed, trace.Doubted:
			x.Sides[0] = Side{Steps: d.Before.Steps, Samples: d.Before.Samples, Active: d.Before.Active, Busy: d.Before.Busy}
			x.Sides[1] = after
			x.Change = stats.Comparison{Margin: stats.DefaultMargin, Throughput: ChangeOf(d)}
		}
	}
}

// ChangeOf returns the comparison on which a decision was made.
func ChangeOf(d *trace.Decision) stats.Change {
	c := stats.Change{Ratio: d.Ratio, Lo: d.Lo, Hi: d.Hi, Drifted: 1}
	if before, after := ratesOf(d); d.Ratio > 0 && before > 0 && after > 0 {
		c.Drifted = after / before / d.Ratio
	}
	if c.Answer.UnmarshalText([]byte(d.Answer)) != nil || c.Answer == stats.Unknown {
		c.Answer, c.Missing.What = stats.Unknown, stats.Measurement
	}
	return c
}

// Tried returns how many settings a tune measured in addition to those at its start.
func (x *Experiment) Tried() (n int) {
	for i := range x.Decisions {
		if v := x.Decisions[i].Verdict; v == trace.Best || v == trace.Dropped {
			n++
		}
	}
	return n
}

// trying says what a tune is doing now.
func (x *Experiment) trying() string {
	switch n := len(x.Decisions); {
	case n == 0:
		return "measures the settings at the start"
	case x.Decisions[n-1].Verdict == trace.Doubted:
		return "lets the best and those at the start take turns, " + units.Counted(len(x.Pairs), "pair", "pairs")
	case len(x.Trying) == 0:
		return "measures the settings at the start again"
	}
	setting := knob.Join(x.Trying, ", ")
	if slices.Equal(x.Trying, x.best()) {
		return "measures " + setting + " again"
	}
	return fmt.Sprintf("trial %d, %s", x.Tried()+1, setting)
}

// best returns the knobs whose best values so far differ from those at the start.
func (x *Experiment) best() []knob.Setting {
	at := slices.Clone(x.Settings[0])
	for i := range x.Decisions {
		d := &x.Decisions[i]
		for k := range at {
			if v := knob.ValueOf(d.Knobs, at[k].Name); v != "" && d.Verdict == trace.Best {
				at[k].Value = v
			}
		}
	}
	return slices.DeleteFunc(at, func(k knob.Setting) bool { return knob.ValueOf(x.Settings[0], k.Name) == k.Value })
}

// left says what is left of a tune's budget.
func (x *Experiment) left() string {
	return units.Prose.Time(max(0, (x.Budget-x.Spent)/1e9*1e9)) + " of its budget left"
}

// ratesOf returns the rates, in samples/s, that a decision compares; 0 where there was none.
func ratesOf(d *trace.Decision) (before, after float64) {
	var sides [2]Side
	sides[0].add(&d.Before)
	sides[1].add(&d.After)
	return sides[0].SamplesPerSecond(), sides[1].SamplesPerSecond()
}

// Promising reports whether settings looked faster by a twentieth or more, and it is not certain that they are.
func Promising(d *trace.Decision) bool {
	before, after := ratesOf(d)
	return d.Answer == stats.Unknown.String() && before > 0 && after >= 1.05*before
}

// tuned says what a tune found, or how far it is.
func (x *Experiment) tuned() string {
	tried := "; " + units.Counted(x.Tried(), "setting was tried", "settings were tried")
	if x.Running() {
		text := x.trying()
		for i := len(x.Decisions) - 1; i >= 0; i-- {
			if d := &x.Decisions[i]; d.Verdict == trace.Best {
				text += "; the best so far " + gained(d, &x.Sides[0])
				break
			}
		}
		return text + "; " + x.left()
	}
	text := ""
	c := &x.Change.Throughput
	switch {
	case x.Why == trace.DryRun:
		return "a dry run: nothing was changed"
	case len(x.B) == 0 && x.Why == "" && slices.ContainsFunc(x.Decisions, func(d trace.Decision) bool { return d.Verdict == trace.Dropped && Promising(&d) }):
		text = fmt.Sprintf("nothing was certain to be faster than the settings at the start, which stay; a tune longer than %s may tell", units.Prose.Time(x.Budget))
	case len(x.B) == 0 && x.Why == "":
		text = "nothing faster was found than the settings at the start, which stay"
	case len(x.B) == 0:
		return "ended before anything better was found" + tried + "; " + x.Why
	case x.Kept && c.Answer == stats.Unknown: // the gain was so large that no interval was waited for
		text = fmt.Sprintf("%s: %s; it stays", x.Changes(), units.Prose.Gain(units.Rough(x.Sides[1].SamplesPerSecond()/x.Sides[0].SamplesPerSecond())))
	case x.Kept:
		text = fmt.Sprintf("%s: %v; it stays", x.Changes(), c)
	case c.Answer == stats.Unknown:
		text = fmt.Sprintf("%s seemed better, which is not certain; taken back; a tune longer than %s may tell", x.Changes(), units.Prose.Time(x.Budget))
	default:
		text = fmt.Sprintf("%s seemed better, but %v when measured again; taken back", x.Changes(), c)
	}
	if text += tried; x.Why != "" {
		text += "; " + x.Why
	}
	return text
}

// gained returns the rate of a decision's settings against another side's, in words.
func gained(d *trace.Decision, found *Side) string {
	after := Side{Samples: d.After.Samples, Active: d.After.Active}
	if found.SamplesPerSecond() <= 0 {
		return units.Rate(after.SamplesPerSecond()) + " samples/s"
	}
	return units.Prose.Gain(units.Rough(after.SamplesPerSecond()/found.SamplesPerSecond())) + " throughput"
}
