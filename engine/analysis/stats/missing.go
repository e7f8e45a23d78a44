package stats

import (
	"fmt"
	"math"
	"slices"
	"time"

	"dev.gpustall/engine/base/units"
)

// What is the kind of thing that a comparison lacks for an answer.
type What uint8

const (
	Nothing What = iota
	Steps
	Time
	Windows
	Precision   // the interval is too wide to tell: half of it against the margin
	Measurement // the time was not measured at all
	Pairs
)

var whatNames = [...]string{"", "steps", "time", "windows", "precision", "measurement", "pairs"}

// MarshalText writes w as a word, for JSON.
func (w What) MarshalText() ([]byte, error) { return []byte(whatNames[w]), nil }

// UnmarshalText reads what MarshalText wrote.
func (w *What) UnmarshalText(text []byte) error {
	i := slices.Index(whatNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("read a comparison: %q is not among what may be missing", text)
	}
	*w = What(i)
	return nil
}

// These are the least that each side must have. Before, nothing is said, whatever the
// numbers, because the bound holds only for looks that begin after it.
const (
	leastSteps   = 50
	leastSeconds = 2
	leastWindows = 15
)

// Missing is what a comparison lacks for an answer. Have and Want are steps, seconds, windows or
// pairs; for Precision they are shares.
type Missing struct {
	What       What
	Side       int // 0: A, 1: B
	Have, Want float64
	More       time.Duration // about how much longer B, or both by turns, must run for an answer; 0 where that is not known
}

// longestWait is the most that String tells of Missing.More: nobody waits longer for an answer.
const longestWait = 10 * time.Minute

// hopeless is the factor beyond which String only says that the steps differ too much. A few
// windows that differ wildly have intervals of any size, whose digits say nothing.
const hopeless = 100

// OfA reports whether A is too short: then more steps of B bring no answer.
func (m Missing) OfA() bool {
	return m.Side == 0 && (m.What == Steps || m.What == Time || m.What == Windows)
}

// Hopeless reports whether an interval is so wide that its ends say nothing.
func (m Missing) Hopeless() bool { return m.What == Precision && m.Have > hopeless }

// Soon reports whether it is known that an answer comes within a time that people wait.
func (m Missing) Soon() bool { return m.More > 0 && m.More <= longestWait }

// String says in words what is missing. Examples are "12 of 50 steps", "4 of 15 independent
// windows", "known to ±4.1 %, ~20 s more would tell", "not measured" and "4 of 6 pairs, ~20 s more at least". Of A it says
// "12 of 50 steps to compare with".
func (m Missing) String() string {
	if m.OfA() {
		m.Side = 1
		return m.String() + " to compare with"
	}
	switch m.What {
	case Steps:
		return fmt.Sprintf("%s of %s", units.Count(int(m.Have)), units.Counted(int(m.Want), "step", "steps"))
	case Time:
		return fmt.Sprintf("%s of %s of steps", units.Prose.Time(int64(1e9*m.Have)), units.Prose.Time(int64(1e9*m.Want)))
	case Windows:
		return fmt.Sprintf("%s of %s", units.Count(int(m.Have)), units.Counted(int(m.Want), "independent window", "independent windows"))
	case Precision:
		if m.Have >= 1 { // larger than the mean: the digits tell a reader nothing
			return "the steps so far differ too much to tell"
		}
		if m.Soon() {
			return fmt.Sprintf("known to ±%s, ~%s more would tell", units.Prose.Percent(m.Have), roughly(m.More))
		}
		return fmt.Sprintf("known to ±%s, ±%s is needed", units.Prose.Percent(m.Have), units.Prose.Percent(m.Want))
	case Measurement:
		return "not measured"
	case Pairs:
		text := fmt.Sprintf("%s of %s", units.Count(int(m.Have)), units.Counted(int(m.Want), "pair", "pairs"))
		if m.Soon() {
			text += fmt.Sprintf(", ~%s more at least", roughly(m.More))
		}
		return text
	}
	return ""
}

// roughly writes a time as people estimate it: "21 s", "4 min".
func roughly(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", max(1, d.Seconds()))
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// later returns about how much longer B must run for an answer, where it ran for active. variance is that of
// the estimate, of which B can lower its own part. log and half are the estimate and half of its interval.
// The interval has to leave 0 out, or to lie within the margin.
func later(active time.Duration, variance, own, log, half, margin float64) time.Duration {
	narrower := max(math.Abs(log), math.Log1p(margin)-math.Abs(log)) / half
	left := own - variance*(1-narrower*narrower)
	if left <= 0 || narrower >= 1 {
		return 0
	}
	return time.Duration(min(float64(active)*(own/left-1), math.MaxInt64/2))
}

// missing returns which of steps, seconds and independent windows is furthest from enough,
// on either side.
func missing(sides *[2]side) Missing {
	var worst Missing
	for i := range sides {
		s := &sides[i]
		for _, m := range [...]Missing{
			{What: Steps, Side: i, Have: float64(s.Steps), Want: leastSteps},
			{What: Time, Side: i, Have: s.Active.Seconds(), Want: leastSeconds},
			{What: Windows, Side: i, Have: s.samples, Want: leastWindows},
		} {
			if m.Have < m.Want && (worst.What == Nothing || m.Have/m.Want < worst.Have/worst.Want) {
				worst = m
			}
		}
	}
	return worst
}
