package plot

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Row is a configuration that was measured: a segment of a session, or one of a sweep.
type Row struct {
	Name    string                // under its bars, in one line or several
	Stats   attribution.Breakdown // of the steps that count
	Rate    units.Estimate        // samples a second
	Workers int                   // num_workers
	Epoch   int64                 // samples of an epoch; 0 where unknown
	Memory  int64                 // bytes of the device; 0 where unknown
}

// Rows are the configurations that charts set side by side.
type Rows struct {
	Rows []Row
	By   string // what tells them apart, for the titles of charts; empty for no mention
	Axis string // the label of the x axis
}

// chart returns a chart of the rows, without bars. The title ends with what tells the rows
// apart.
func (r *Rows) chart(name, title, comma, y string) *Chart {
	if r.By != "" {
		title += comma + " by " + r.By
	}
	c := &Chart{Name: name, Title: title, X: r.Axis, Y: y}
	for i := range r.Rows {
		c.Groups = append(c.Groups, r.Rows[i].Name)
	}
	return c
}

// each returns a value for each row; NaN where nothing was measured.
func (r *Rows) each(of func(*Row) float64) []float64 {
	out := make([]float64, len(r.Rows))
	for i := range r.Rows {
		out[i] = math.NaN()
		if r.Rows[i].Stats.Steps > 0 {
			out[i] = of(&r.Rows[i])
		}
	}
	return out
}

// written returns each value as text, "-" for NaN.
func written(values []float64, of func(float64) string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		if out[i] = "-"; !math.IsNaN(v) {
			out[i] = of(v)
		}
	}
	return out
}

// Throughput draws the samples a second of each row, with its interval.
func (r *Rows) Throughput() *Chart {
	b := Bars{
		Name: "throughput", Colour: Blue,
		Values: r.each(func(r *Row) float64 { return r.Rate.Value }),
		Lo:     r.each(func(r *Row) float64 { return r.Rate.Lo }),
		Hi:     r.each(func(r *Row) float64 { return r.Rate.Hi }),
	}
	b.Texts = written(b.Values, units.Rate)
	c := r.chart("throughput", "Throughput", "", "samples/s")
	c.Bars, c.Note = []Bars{b}, "Steady steps. "+Whiskers
	return c
}

// Whiskers explains the whiskers in the note of a chart.
const Whiskers = "Whiskers are 95 % intervals, which go on where they reach the top; " +
	"where there is none, too little was measured for one."

// Epochs draws the time of an epoch beside what the device computes and what a worker
// loads in it. The epoch cannot be shorter than the longer of those two.
func (r *Rows) Epochs() *Chart {
	per := func(ns func(*Row) int64) []float64 {
		return r.each(func(r *Row) float64 {
			if r.Epoch == 0 || r.Stats.Samples == 0 {
				return math.NaN()
			}
			return float64(ns(r)) / float64(r.Stats.Samples) * float64(r.Epoch) / 1e9
		})
	}
	c := r.chart("epochs", "What an epoch takes", ",", "seconds")
	c.Bars = []Bars{
		{Name: "an epoch", Colour: Blue, Values: per(func(r *Row) int64 { return r.Stats.Active() })},
		{Name: "the device computes", Colour: Computing, Values: per(func(r *Row) int64 { return r.Stats.Busy })},
		{Name: "a worker loads", Colour: Orange, Values: per(func(r *Row) int64 { return r.Stats.Load / int64(max(1, r.Workers)) })},
	}
	c.Note = "At the rate of the steady steps. " +
		"Loading is the time of all workers, divided by their number (inline: the step loop's own)."
	for i := range c.Bars {
		b := &c.Bars[i]
		b.Texts = written(b.Values, func(s float64) string { return units.Narrow.Time(int64(s * 1e9)) })
	}
	return c
}

// Stalls draws where the time of each row went: computing and every cause of idleness.
func (r *Rows) Stalls() *Chart {
	c := r.chart("stalls", "Where the time went", ",", "% of the time")
	c.Stacked, c.Top = true, 100
	add := func(name string, letter rune, b Bars, of func(*Row) float64) {
		b.Name, b.Letter = name, letter
		b.Values = r.each(func(r *Row) float64 { return 100 * of(r) })
		b.Texts = written(b.Values, func(v float64) string { return units.Narrow.Percent(v / 100) })
		c.Bars = append(c.Bars, b)
	}
	add("computing", '#', Bars{Colour: Computing}, func(r *Row) float64 { return r.Stats.Utilisation() })
	for i := range trace.NumCauses {
		cause := trace.Cause(i)
		share := func(r *Row) float64 { return r.Stats.Share(cause) }
		if slices.ContainsFunc(r.Rows, func(r Row) bool { return share(&r) >= leastShare }) {
			add(cause.String(), cause.Info().Letter, Bars{Colour: Cause(cause)}, share)
		}
	}
	c.Note = fmt.Sprintf("What the device did, and while it computed nothing, what it waited for. Causes under %s of the time everywhere are left out.",
		units.Prose.Percent(leastShare))
	return c
}

// leastShare is the least share of the time for which a cause is drawn.
const leastShare = 0.001

// Utilisation draws how busy the device was over the run. It marks the beginning of each
// segment with the segment's name, unless that is empty.
func Utilisation(s *trace.Snapshot, names func(*trace.Segment) string) *Chart {
	c := &Chart{
		Name: "utilisation", Title: "Device utilisation over time",
		X: "seconds since the start", Y: "% of the time computing", Top: 105,
	}
	h := &s.History
	if len(h.Points) == 0 {
		return c
	}
	first := int(s.First.Start / h.Bucket)
	group := max(1, (len(h.Points)-first+maxPoints-1)/maxPoints)
	l := Line{Name: "device utilisation", Colour: Computing, Filled: true}
	for i := first; i < len(h.Points); i += group {
		busy, n := 0.0, 0
		for _, p := range h.Points[i:min(i+group, len(h.Points))] {
			busy += float64(p.Busy)
			n++
		}
		at := float64(i) * float64(h.Bucket) / 1e9
		width := float64(n) * float64(h.Bucket)
		share := 100 * busy / width
		l.Points = append(l.Points, Point{at, share}, Point{at + width/1e9, share})
	}
	c.Lines = []Line{l}
	c.Note = fmt.Sprintf("A step of the curve is %s. What was paused counts as not computing.", units.Prose.Time(int64(group)*h.Bucket))
	for i := range s.Segments {
		g := &s.Segments[i]
		if name := names(g); name != "" {
			c.Marks = append(c.Marks, Mark{max(float64(g.Start)/1e9, l.Points[0].X), name})
		}
	}
	if n := len(c.Marks); n > maxMarks {
		c.Marks = nil
		c.Note += fmt.Sprintf(" The settings changed %s, which is not marked.", units.Counted(n-1, "time", "times"))
	}
	return c
}

const (
	maxPoints = 400 // of a curve
	maxMarks  = 12  // of segments
	bins      = 60  // of a histogram
)

// Steps are the step times of a configuration.
type Steps struct {
	Name  string
	Times []*trace.Distribution
}

// StepTimes draws how often steps took how long, for one configuration or for two of them.
func StepTimes(of []Steps) *Chart {
	c := &Chart{Name: "steps", Title: "Step times", Y: "% of the steps", X: "milliseconds"}
	const whole = 0.99
	from, to := int64(math.MaxInt64), int64(0)
	for _, s := range of {
		if n := count(s.Times); n > 0 {
			from = min(from, trace.Quantile(0, s.Times...))
			to = max(to, trace.Quantile(whole, s.Times...))
		}
	}
	if to == 0 {
		return c
	}
	pad := max((to-from)/20, to/200, bins)
	from, to = max(0, from-pad), to+pad
	edges := make([]int64, bins+1)
	for i := range edges {
		edges[i] = from + int64(float64(to-from)*float64(i)/bins)
	}
	colours := [...]color.Color{Orange, Blue}
	beyond := ""
	for i, s := range of {
		n := count(s.Times)
		if n == 0 {
			continue
		}
		l := Line{Name: s.Name, Colour: colours[i%len(colours)], Filled: len(of) == 1, Dashed: i == 0 && len(of) > 1}
		counts := make([]int64, bins)
		for _, d := range s.Times {
			d.Count(edges, counts)
		}
		left := n
		for b, k := range counts {
			left -= k
			share := 100 * float64(k) / float64(n)
			l.Points = append(l.Points, Point{float64(edges[b]) / 1e6, share}, Point{float64(edges[b+1]) / 1e6, share})
		}
		if left > 0 {
			beyond += fmt.Sprintf(" Of %s, %s of %s took longer than is shown, at the most %s.",
				s.Name, units.Count(left), units.Counted(n, "step", "steps"), units.Prose.Time(trace.Quantile(1, s.Times...)))
		}
		c.Lines = append(c.Lines, l)
	}
	c.Note = "Steady steps." + beyond
	return c
}

// count returns how many step times the distributions hold.
func count(of []*trace.Distribution) (n int64) {
	for _, d := range of {
		n += d.N()
	}
	return n
}

// Memory draws the device memory of each row; nil where none is known.
func (r *Rows) Memory() *Chart {
	b := Bars{Name: "device memory", Colour: SkyBlue}
	known := false
	b.Values = r.each(func(r *Row) float64 {
		if r.Memory == 0 {
			return math.NaN()
		}
		known = true
		return float64(r.Memory) / (1 << 20)
	})
	if !known {
		return nil
	}
	b.Texts = written(b.Values, func(mib float64) string { return units.Narrow.Bytes(int64(mib * (1 << 20))) })
	c := r.chart("memory", "Device memory", "", "MiB")
	c.Bars = []Bars{b}
	return c
}
