// Package lines says which lines of a PyTorch training's code cost time. They are lines of the
// loading that the device waits for, and of the step loop.
package lines

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Cost is a line and what it takes.
type Cost struct {
	trace.Line
	Part float64 // of the time of the same kind, 0 to 1: of the loading that the loop waited for, or of the step loop
	Work float64 // for a line that loads: its part of all loading, 0 to 1
	Lost float64 // of the time, 0 to 1: what the device lost to the line; for the loop's lines, what the loop spent on it
	Free float64 // of the time, 0 to 1: the most that would be saved if the line were free
}

// MinLooks is how many looks the lines of one kind need for any of them to be named. A share of 30 % is
// then known to 7 points (one standard error).
const MinLooks = 40

// Listed is how many lines a table has, and Few how many a short account has.
const (
	Listed = 15
	Few    = 5
)

// Of returns the lines of a segment, the costliest first. data is the share of the time in which the
// device waits for data (0 to 1). It is divided among the lines that load, by how long the loop
// waited for workers there. Where too few looks tell that, it is divided by the lines' own time.
func Of(s *trace.Snapshot, segment int32, data float64) (costs []Cost) {
	var loading, loop, looks, looked int64
	inline := s.Inline(segment)
	lost, awaited := Awaited(s, segment)
	for i := range s.Lines {
		if l := &s.Lines[i]; l.Segment == segment {
			if l.At.OfWorker() {
				loading += l.Time
				looks += int64(l.Looks)
			}
			if l.At.OfLoop() || inline && l.At == trace.Loading {
				loop += l.Time
				looked += int64(l.Looks)
			}
		}
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		if l.Segment != segment {
			continue
		}
		c := Cost{Line: *l}
		switch {
		case l.At.OfWorker() && (looks >= MinLooks || inline && looked >= MinLooks):
			c.Work = float64(l.Time) / float64(max(1, loading))
			c.Part = c.Work
			if lost > 0 {
				c.Part, looks = float64(l.Lost)/float64(lost), awaited
			}
			c.Lost = c.Part * data
			if c.Free = min(data, upper(c.Part, looks)); inline { // part of data may be the sampler's, or another thread's
				c.Lost = min(c.Lost, float64(l.Time)/float64(max(1, loop)))
				c.Free = min(c.Free, upper(float64(l.Time)/float64(max(1, loop)), looked))
			}
		case (l.At.OfStep() || l.At == trace.Sampling || l.At == trace.Locked) && looked >= MinLooks:
			c.Part = float64(l.Time) / float64(max(1, loop))
			c.Lost, c.Free = c.Part, upper(c.Part, looked)
		default:
			continue
		}
		costs = append(costs, c)
	}
	slices.SortStableFunc(costs, func(a, b Cost) int { return cmp.Compare(b.Lost, a.Lost) })
	return costs
}

// Awaited returns how long, in ns, the loop waited for what workers did in a segment, and how many
// looks tell it. Both are 0 where the looks are too few.
func Awaited(s *trace.Snapshot, segment int32) (lost, looks int64) {
	for i := range s.Lines {
		if l := &s.Lines[i]; l.Segment == segment && l.At.OfWorker() {
			lost += l.Lost
			looks += int64(l.Awaited)
		}
	}
	if looks < MinLooks {
		return 0, 0
	}
	return lost, looks
}

// upper returns how large a share that so many looks found may really be: two standard
// errors more.
func upper(share float64, looks int64) float64 {
	return min(1, share+2*math.Sqrt(share*(1-share)/float64(looks)))
}

// Thread is the function that the line's thread runs, where threading began it: "poll"; else empty.
func (c *Cost) Thread() string {
	began := false
	for _, call := range c.Callers() {
		if strings.Contains(call, " (threading.py:") {
			began = true
			continue
		}
		if began {
			name, _, _ := strings.Cut(call, " (")
			return units.Line(name)
		}
		return ""
	}
	return ""
}

// Most returns the costliest line that has a file, of the lines at which threads do one
// thing. What the loop waits for in another thread is part of what its step does. The start of workers is part of
// loading.
func Most(costs []Cost, at trace.Doing) (Cost, bool) {
	for _, c := range costs {
		if (c.At == at || at == trace.InStep && c.At == trace.Awaited || at == trace.Loading && c.At == trace.Starting) && c.File != "" {
			return c, true
		}
	}
	return Cost{}, false
}

// Where names the line briefly, as in a traceback: "transforms.py:42". For a library it names the
// function: "GaussianBlur.forward".
func (c *Cost) Where() string {
	if c.File == "" || c.Library {
		return units.Line(c.Func)
	}
	return units.Line(fmt.Sprintf("%s:%d", filepath.Base(c.File), c.Number))
}

// What returns the line's text without a comment at its end, or its function where there is no text.
func (c *Cost) What() string {
	if c.File == "" || c.Library {
		return ""
	}
	text, _, _ := strings.Cut(c.Text, "  # ")
	return units.Line(cmp.Or(strings.TrimSpace(text), c.Func))
}

// shownText is how much of a line's text stands in a sentence.
const shownText = 40

// Short returns the line's text, cut if it is long.
func (c *Cost) Short() string {
	text := c.What()
	if r := []rune(text); len(r) > shownText {
		text = strings.TrimSpace(string(r[:shownText-2])) + " ~"
	}
	return text
}

// Named names the line within a sentence: "transforms.py:42 (blur(img))".
func (c *Cost) Named() string {
	if short := c.Short(); short != "" {
		return c.Where() + " (" + short + ")"
	}
	return c.Where()
}

// String names the line with its text, in a table: "transforms.py:42 blur(img)".
func (c *Cost) String() string { return strings.TrimSpace(c.Where() + " " + c.Short()) }
