package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Results are what the runs of a plan have measured.
type Results struct {
	Plan *Plan
	Rows []Result // by configuration
	Base int      // the row that all are compared with; -1 when it was not measured

	runs *stats.Runs
}

// Result is what a configuration measured, in all its runs.
type Result struct {
	Config
	Runs    []*Measured           // by round; nil where one is missing
	Stats   attribution.Breakdown // of the steps that count
	Rate    units.Estimate        // samples a second
	P50     int64                 // ns, of a step
	P95     int64
	Against stats.Comparison // with the baseline
	Added   stats.Comparison // with the rung before it
	Memory  int64            // bytes that the device held, at most
	Host    int64            // bytes that the process held, at most
	Workers int              // num_workers
	Epoch   int64            // samples of an epoch
	before  int              // the measured rung before it; -1 when there is none
}

// Measured reports whether any run of the configuration has ended.
func (r *Result) Measured() bool { return r.Stats.Steps > 0 }

// First returns the first run that has ended; nil when there is none.
func (r *Result) First() *Measured {
	for _, m := range r.Runs {
		if m != nil {
			return m
		}
	}
	return nil
}

// Done returns how many runs have ended.
func (r *Result) Done() (n int) {
	for _, m := range r.Runs {
		if m != nil {
			n++
		}
	}
	return n
}

// Times returns the distributions of its step times.
func (r *Result) Times() (all []*trace.Distribution) {
	for _, m := range r.Runs {
		if m != nil {
			all = append(all, &m.Tally.Plain, &m.Tally.Probed)
		}
	}
	return all
}

// Labels returns what must be known about the numbers of any run.
func (r *Result) Labels() (all []advice.Label) {
	for _, m := range r.Runs {
		if m != nil {
			all = MergeLabels(all, m.Verdict.Labels)
		}
	}
	return all
}

// Labels returns what must be known about the numbers of any configuration.
func (r *Results) Labels() (all []advice.Label) {
	for i := range r.Rows {
		all = MergeLabels(all, r.Rows[i].Labels())
	}
	return all
}

// MergeLabels adds the labels of b that a does not have.
func MergeLabels(a, b []advice.Label) []advice.Label {
	for _, l := range b {
		if !slices.ContainsFunc(a, func(o advice.Label) bool { return o.Key == l.Key }) {
			a = append(a, l)
		}
	}
	return a
}

// results sums up the runs of each configuration and compares them.
func (p *Plan) results(all [][]*Measured) *Results {
	out := &Results{Plan: p, Base: -1, Rows: make([]Result, len(p.Configs))}
	stretches := make([][]stats.Stretch, len(all))
	for i := range all {
		r := &out.Rows[i]
		r.Config, r.Runs, r.before = p.Configs[i], all[i], -1
		stretches[i] = make([]stats.Stretch, len(all[i]))
		for j, m := range all[i] {
			if m == nil {
				continue
			}
			stretches[i][j] = m.Stretch
			r.Stats.Plus(&m.Breakdown.Totals)
			r.Memory, r.Host = max(r.Memory, m.Memory), max(r.Host, m.Host)
			r.Epoch = m.Meta.Samples
			r.Workers, _ = strconv.Atoi(knob.ValueOf(m.Segment.Knobs, "num_workers"))
		}
		r.P50, r.P95 = trace.Quantile(0.50, r.Times()...), trace.Quantile(0.95, r.Times()...)
	}
	out.runs = stats.NewRuns(stretches)
	for i := range out.Rows {
		r := &out.Rows[i]
		if !r.Measured() {
			continue
		}
		r.Rate = out.runs.Rate(i)
		if out.Base < 0 && i == 0 {
			out.Base = 0
		}
		if out.Base >= 0 && i != out.Base {
			r.Against = out.runs.Compare(out.Base, i, stats.DefaultMargin)
		}
		for b := r.Before; b >= 0 && r.before < 0; b = out.Rows[b].Before {
			if out.Rows[b].Measured() {
				r.before = b
				r.Added = out.runs.Compare(b, i, stats.DefaultMargin)
			}
		}
	}
	return out
}

// Best returns the row with the most samples a second; -1 when nothing was measured.
func (r *Results) Best() int {
	best := -1
	for i := range r.Rows {
		if r.Rows[i].Measured() && (best < 0 || r.Rows[i].Rate.Value > r.Rows[best].Rate.Value) {
			best = i
		}
	}
	return best
}

// Headline says which configuration is the fastest and how sure that is.
func (r *Results) Headline() string {
	best := r.Best()
	if best < 0 {
		return "nothing was measured"
	}
	b := &r.Rows[best]
	text := fmt.Sprintf("%s is the fastest of %s: %s samples/s",
		b.Name, units.Counted(r.count(), "configuration that was measured", "that were measured"), units.Rate(b.Rate.Value))
	switch {
	case r.count() < 2:
		return fmt.Sprintf("%s: %s samples/s; nothing else was measured", b.Name, units.Rate(b.Rate.Value))
	case r.Base < 0:
	case best == r.Base:
	default:
		if t := &b.Against.Throughput; t.Answer == stats.Unknown {
			text += fmt.Sprintf("; against %s %s", r.Rows[r.Base].Name, t.Undecided())
			if n := r.Plan.Longer(lacking(t)); n > r.Plan.Steps && r.Plan.Epochs == 0 {
				text += fmt.Sprintf(", --steps %d may tell", n)
			}
		} else {
			text += fmt.Sprintf(", against %s %v", r.Rows[r.Base].Name, t)
		}
		text += r.doubt(best)
	}
	if also := r.answered(best, stats.Same); len(also) > 0 {
		text += "; the same within " + units.Prose.Percent(stats.DefaultMargin) + ": " + strings.Join(also, ", ")
	}
	open := r.answered(best, stats.Unknown)
	if r.Base >= 0 && best != r.Base { // the text names the first row already
		open = slices.DeleteFunc(open, func(name string) bool { return name == r.Rows[r.Base].Name })
	}
	if len(open) > 0 {
		text += "; not told apart from it yet: " + strings.Join(open, ", ")
	}
	return text
}

// lacking returns how many times as many steps a comparison needs; 0 where more steps would not help.
func lacking(c *stats.Change) float64 {
	switch m := c.Missing; m.What {
	case stats.Steps, stats.Time, stats.Windows:
		return m.Want / max(m.Have, 0.01*m.Want)
	}
	return 0
}

// Lacking returns how many times as many steps the comparisons with the first configuration need; 0 where more
// would not help.
func (r *Results) Lacking() (times float64) {
	for i := range r.Rows {
		times = max(times, lacking(&r.Rows[i].Against.Throughput))
	}
	return times
}

// Longer returns how many steps a run needs for so many times as many, with some to spare.
func (p *Plan) Longer(times float64) int { return int(math.Ceil(1.2 * times * float64(p.Steps))) }

// doubt says what besides its settings may have made row best look better than the first
// row; empty where nothing is known.
func (r *Results) doubt(best int) (text string) {
	b, a := r.Rows[best].others(), r.Rows[r.Base].others()
	if math.Abs(b-a) > advice.SteadyOthers { // false for NaN
		text = fmt.Sprintf("; but other processes took %s of all cores while it ran, and %s while %s did",
			units.Prose.Percent(b), units.Prose.Percent(a), r.Rows[r.Base].Name)
	}
	if !r.runs.Between() {
		text += "; one run of each was made, and how much runs differ is not known (--repeat 3 tells)"
	}
	return text
}

// others returns the share of all cores that other processes used, on average over the
// runs; NaN where it is not known.
func (r *Result) others() float64 {
	sum := 0.0
	for _, m := range r.Runs {
		if m != nil {
			sum += m.Others
		}
	}
	return sum / float64(r.Done())
}

// count returns how many configurations were measured.
func (r *Results) count() (n int) {
	for i := range r.Rows {
		if r.Rows[i].Measured() {
			n++
		}
	}
	return n
}

// answered names the rows whose comparison with row best has that answer.
func (r *Results) answered(best int, a stats.Answer) (names []string) {
	for i := range r.Rows {
		if i != best && r.Rows[i].Measured() && r.runs.Compare(best, i, stats.DefaultMargin).Throughput.Answer == a {
			names = append(names, r.Rows[i].Name)
		}
	}
	return names
}

// Done returns how many runs have ended.
func (r *Results) Done() (n int) {
	for i := range r.Rows {
		n += r.Rows[i].Done()
	}
	return n
}

// Err says that configurations failed; nil where none did.
func (r *Results) Err(folder string) error {
	var failed []string
	for i := range r.Rows {
		if r.Rows[i].Failed != "" {
			failed = append(failed, r.Rows[i].Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%s of %d failed: %s", units.Count(len(failed)), len(r.Rows), strings.Join(failed, ", "))
	return errs.New("sweep", folder, reason, "the table says why; the same command tries them again")
}
