package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// where is the section about the lines of the user's code that cost the time.
type where struct {
	lines []lines.Cost
	name  string // of the segment
}

func newWhere(a *account) where {
	if a.kept < 0 || a.kept >= len(a.rows) {
		return where{}
	}
	return where{a.advice.Lines, a.rows[a.kept].Name()}
}

// listedFrom is the share of the time from which a line is listed.
const listedFrom = 0.005

func (w where) write(d *markup.Document) {
	rows := [][]string{{"line", ">of the time", "at", "source", "most of it in"}}
	looks := 0
	for i := range w.lines {
		c := &w.lines[i]
		looks += c.Looks
		if len(rows) > lines.Listed || c.Lost < listedFrom && c.Part < 0.05 {
			continue
		}
		rows = append(rows, []string{c.Where(), units.Prose.Percent(c.Lost), string(c.At), cmp.Or(c.What(), "-"), cmp.Or(c.In, "-")})
	}
	if len(rows) == 1 {
		return
	}
	d.Heading(2, "Which lines of code it is")
	d.Table(rows)
	d.Sentences(
		"With the settings of "+w.name+", by "+units.Counted(looks, "look", "looks")+" at the Python frames of the training loop and its workers.",
		"The line is the innermost one of the script's own code; where a library loads by itself, it is the library's function.",
		"Of lines at '"+string(trace.Loading)+"' and '"+string(trace.Starting)+"', the time is what the device lost: its wait for data, divided among lines by the time in which the loop waited for what its workers did there.",
		"Of the others, it is what the training loop spent on them.",
		"A share of 30 % that rests on 100 looks is known to about 9 points.",
	)
}

// Folded writes the stacks in which the lines of code were found, in the form that flame graph tools read:
// calls with a semicolon between, and us. The us are the loop's own time, and for workers the time in which
// the loop waited for them. If few looks tell that, they are all of the workers' time. What the thread was
// at stands before the calls. A line whose stacks are not known stands alone. Folded fails if no line was
// looked at.
func Folded(w io.Writer, s *trace.Snapshot, o Options) error {
	took, awaited := map[string]int64{}, map[int32]int64{}
	for i := range s.Lines {
		l := &s.Lines[i]
		if l.At == trace.Idling {
			continue
		}
		rest, weight := l.Time/1000, 1.0
		lost, known := awaited[l.Segment]
		if !known {
			lost, _ = lines.Awaited(s, l.Segment)
			awaited[l.Segment] = lost
		}
		switch {
		case lost == 0 || rest == 0:
		case l.At.OfWorker():
			weight = float64(l.Lost) / float64(l.Time)
		case l.At == trace.Waiting: // lines that load have that time
			weight = max(0, 1-float64(lost)/float64(l.Time))
		}
		for stack := range strings.Lines(l.Stacks) {
			stack = strings.TrimSuffix(stack, "\n")
			at := strings.LastIndexByte(stack, ' ')
			us, err := strconv.ParseInt(stack[at+1:], 10, 64)
			if at < 0 || err != nil || us < 0 || us > rest {
				continue
			}
			calls := strings.Split(stack[:at], ";")
			for j := range calls {
				calls[j] = units.Line(calls[j])
			}
			took[units.Line(string(l.At))+";"+strings.Join(calls, ";")] += int64(weight * float64(us))
			rest -= us
		}
		call := l.Func
		if l.Number > 0 {
			call += " (" + filepath.Base(l.File) + ":" + itoa(int64(l.Number)) + ")"
		}
		took[units.Line(string(l.At))+";"+strings.ReplaceAll(cmp.Or(units.Line(call), "other"), ";", ",")] += int64(weight * float64(rest))
	}
	if len(took) == 0 {
		return errs.New("fold the stacks of", sessionName(o.Session, &s.Meta), "it has no lines of code", "record a PyTorch training with gpustall torch, for some seconds")
	}
	b := bufio.NewWriter(w)
	for _, stack := range slices.Sorted(maps.Keys(took)) {
		if took[stack] > 0 {
			fmt.Fprintf(b, "%s %d\n", stack, took[stack])
		}
	}
	return b.Flush()
}

// LineChange is what a line of code takes for a sample on the two sides of a comparison. It is the
// same line if its function and its text are the same, or its number if the text is not known.
type LineChange struct {
	Line   string
	Source string
	At     trace.Doing
	Took   [2]float64 // ns for a sample; 0 where no look found it
	Sure   bool       // the difference is more than chance
}

// changedLines returns the lines that take at least a moderate part of loading or of the step loop on
// one side, the largest difference first. Both sides must have lines of the kind.
func changedLines(sides [2]*Compared) (out []LineChange) {
	type key struct {
		at         trace.Doing
		name, text string
	}
	type sum struct {
		LineChange
		part, looks [2]float64
	}
	found := map[key]*sum{}
	known := map[bool][2]bool{} // by whether it is loading
	for i, d := range sides {
		b := &d.Row.Breakdown
		for _, c := range lines.Of(d.s, d.Row.Segment.Index, d.Row.DataShare) {
			k := key{c.At, c.Func, cmp.Or(c.Text, fmt.Sprintf("%s:%d", filepath.Base(c.File), c.Number))}
			f := found[k]
			if f == nil {
				f = &sum{LineChange: LineChange{Line: c.Where(), Source: c.Short(), At: c.At}}
				found[k] = f
			}
			whole, part, loads := b.Wall, c.Part, c.At.OfWorker()
			if loads {
				whole, part = b.Load, c.Work
			}
			has := known[loads]
			has[i] = true
			known[loads] = has
			f.Took[i] += part * float64(whole) / float64(max(1, b.Samples))
			f.part[i] += c.Part
			f.looks[i] += float64(c.Looks)
		}
	}
	for _, f := range found {
		if f.Line == "" || max(f.part[0], f.part[1]) < 0.05 || known[f.At.OfWorker()] != [2]bool{true, true} {
			continue
		}
		deviation := 0.0 // squared; the more looks a line has, the better its time is known
		for i := range f.Took {
			deviation += f.Took[i] * f.Took[i] / max(1, f.looks[i])
		}
		f.Sure = math.Abs(f.Took[1]-f.Took[0]) > 2*math.Sqrt(deviation)
		out = append(out, f.LineChange)
	}
	slices.SortFunc(out, func(a, b LineChange) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Took[1]-b.Took[0]), math.Abs(a.Took[1]-a.Took[0])), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Source, b.Source))
	})
	return out[:min(len(out), lines.Listed)]
}

// linesDiffer writes what each line takes on both sides. It writes nothing if no side has
// lines.
func (c *Comparison) linesDiffer(d *markup.Document) {
	if len(c.Lines) == 0 {
		return
	}
	rows := [][]string{{"line", "source", "at", ">A", ">B", ">change"}}
	for _, l := range c.Lines {
		took := func(ns float64) string {
			if ns == 0 {
				return "-"
			}
			return timeOf(ns)
		}
		changed := "not certain"
		switch {
		case l.Sure && l.Took[1] == 0:
			changed = "gone"
		case l.Sure && l.Took[0] == 0:
			changed = "new"
		case l.Sure:
			changed = change(l.Took[0], l.Took[1])
		}
		rows = append(rows, []string{markup.Text(l.Line), cmp.Or(markup.Text(l.Source), "-"), string(l.At), took(l.Took[0]), took(l.Took[1]), changed})
	}
	d.Heading(2, "Lines of code: time for a sample")
	d.Table(rows)
	d.Sentences(
		"Of lines at '"+string(trace.Loading)+"' and '"+string(trace.Starting)+"' it is the time of workers, of the others that of the step loop.",
		"A change is not certain where it is less than two standard errors of what the looks tell.")
}
