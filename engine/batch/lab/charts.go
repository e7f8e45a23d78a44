package lab

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/report/plot"
)

// Files of the pictures.
const (
	workersFile       = "num_workers_comparison.png"
	dataloaderFile    = "dataloader_optimization.png"
	ampFile           = "amp_comparison.png"
	accumulationFile  = "accumulation_comparison.png"
	checkpointingFile = "checkpointing_comparison.png"
	compileFile       = "compile_comparison.png"
	dashboardFile     = "optimization_dashboard.png"
)

// Picture is a picture of the lab and the name of its file.
type Picture struct {
	File  string
	Sheet *plot.Sheet
}

// Pictures returns all pictures. One of which nothing was measured says why.
func (r *Record) Pictures() []Picture {
	l := &gallery{r}
	final, _, _ := l.ends()
	return []Picture{
		{workersFile, l.workers(l.stage(Workers))},
		{dataloaderFile, l.fixes(final)},
		{ampFile, l.sheet("Precision", l.stage(Precision), "throughput", "memory")},
		{accumulationFile, l.sheet("Gradient accumulation (batches x samples of each)", l.stage(Accumulation), "throughput", "memory")},
		{checkpointingFile, l.sheet("Checkpointing", l.stage(Checkpointing), "throughput", "memory")},
		{compileFile, l.sheet("Capture (a CUDA graph; in PyTorch torch.compile)", l.stage(Capture), "throughput", "stalls")},
		{dashboardFile, l.dashboard(final)},
	}
}

// gallery draws the pictures.
type gallery struct{ *Record }

// workers draws the numbers of workers side by side, in their order.
func (l *gallery) workers(s *Stage) *plot.Sheet {
	out := l.sheet("num_workers", s)
	if s == nil || s.Results == nil {
		return out
	}
	var rows []plot.Row
	for i := range s.Results.Rows {
		if r := s.row(i); r != nil {
			rows = append(rows, r.Bar(strconv.Itoa(r.Workers)))
		}
	}
	if len(rows) == 0 {
		return out
	}
	slices.SortFunc(rows, func(a, b plot.Row) int { return cmp.Compare(a.Workers, b.Workers) })
	bars := &plot.Rows{Rows: rows, Axis: "num_workers"}
	rates := bars.Throughput()
	rates.Note += unmeasured(s)
	out.Charts = []*plot.Chart{rates, bars.Epochs()}
	return out
}

// sheet draws charts of a stage side by side.
func (l *gallery) sheet(title string, s *Stage, names ...string) *plot.Sheet {
	out := &plot.Sheet{Title: title, Labels: advice.Words(l.Labels())}
	if m := l.first(); m != nil {
		out.Title += ": " + units.Line(m.Meta.Model+" on "+m.Meta.Device)
	}
	if s == nil || s.Results == nil || s.Results.Done() == 0 {
		why := "It was not reached."
		if s != nil && s.Skipped != "" {
			why = "Not possible, or without effect, here: " + units.Line(s.Skipped) + "."
		}
		out.Charts = []*plot.Chart{{Note: why}}
		return out
	}
	charts := map[string]*plot.Chart{}
	for _, c := range s.Results.Charts() {
		charts[c.Name] = c
	}
	for i, name := range names {
		c := charts[name]
		if c == nil {
			c = &plot.Chart{Title: name, Note: "It is not known here."}
		}
		if i == 0 {
			c.Note += unmeasured(s)
		}
		c.Title, _, _ = strings.Cut(c.Title, " by ") // the names below say by what
		c.Title = strings.TrimSuffix(c.Title, ",")
		out.Charts = append(out.Charts, c)
	}
	return out
}

// unmeasured says which configurations of a stage have no numbers, and why.
func unmeasured(s *Stage) (text string) {
	for i := range s.Results.Rows {
		if r := &s.Results.Rows[i]; !r.Measured() {
			text += fmt.Sprintf(" %s: %s.", units.Line(r.Name), strings.TrimSuffix(units.Line(r.Why()), "."))
		}
	}
	return text
}

// dashboard draws the whole lab in four charts: throughput, cumulative speed-up, memory, and
// what each rung brought. Where nothing was kept, or it was not measured together, they are
// of what was tried.
func (l *gallery) dashboard(s *Stage) *plot.Sheet {
	out := l.sheet("Optimizations", s, "throughput", "speedup", "memory", "speedup")
	if s.row(1) == nil {
		if len(l.Tried) > 0 {
			out.Charts = triedCharts(l.Tried)
		}
		return out
	}
	whole := out.Charts[1]
	part := func(bars int, title, note string) *plot.Chart {
		c := *whole
		c.Title, c.Note = title, note
		c.Bars = whole.Bars[bars : bars+1]
		return &c
	}
	out.Charts[1] = part(0, "Cumulative speed-up", whole.Note)
	out.Charts[3] = part(min(1, len(whole.Bars)-1), "What each brought", "Against the one before. "+plot.Whiskers)
	return out
}

// fixes draws what was kept, rung by rung, and where the time went with it. Where nothing
// was kept, it draws the fixes that were tried.
func (l *gallery) fixes(s *Stage) *plot.Sheet {
	out := l.sheet("From the baseline, fix by fix", s, "throughput", "stalls")
	other := func(o *Optimization) bool { return o.Stage.Kind != Fix && o.Stage.Kind != Workers }
	tried := slices.DeleteFunc(slices.Clone(l.Tried), other)
	if s.row(1) == nil && len(tried) > 0 {
		charts := triedCharts(tried)
		out.Charts = []*plot.Chart{charts[0], charts[3]}
	}
	return out
}

// triedCharts draws what was tried, each against the settings kept until then: throughput,
// the gain of all that was kept, memory, and speed-up.
func triedCharts(tried []*Optimization) []*plot.Chart {
	var names []string
	side := func(name string, colour color.Color) plot.Bars { return plot.Bars{Name: name, Colour: colour} }
	rates := []plot.Bars{side("before", plot.Orange), side("after", plot.Blue)}
	memory := []plot.Bars{side("before", plot.Orange), side("after", plot.Blue)}
	gain, together := side("speed-up", plot.Blue), side("speed-up", plot.Blue)
	product := 1.0
	for _, o := range tried {
		names = append(names, units.Line(o.Name))
		for i, r := range []*sweep.Result{o.before(), o.row()} {
			rate, held, text := units.Rough(math.NaN()), math.NaN(), "-"
			if r != nil {
				rate = r.Rate
				if r.Memory > 0 {
					held, text = float64(r.Memory)/(1<<20), units.Narrow.Bytes(r.Memory)
				}
			}
			rates[i].AddEstimate(rate, units.Rate(rate.Value))
			memory[i].AddEstimate(units.Rough(held), text)
		}
		e := units.Rough(math.NaN())
		if o.row() != nil {
			if e = o.change().Estimate(); o.change().Answer == stats.Unknown {
				e = units.Rough(o.row().Rate.Value / o.before().Rate.Value)
			}
		}
		gain.AddEstimate(e, units.Prose.Ratio(e))
		if o.Kept {
			product *= o.change().Ratio
		}
		together.AddEstimate(units.Rough(product), units.Prose.Ratio(units.Rough(product)))
	}
	memory[0].Texts = nil // they repeat the bar after the change before, and there is little room
	chart := func(title, y, note string, bars ...plot.Bars) *plot.Chart {
		return &plot.Chart{Title: title, Y: y, Note: note, Groups: names, Bars: bars}
	}
	return []*plot.Chart{
		chart("Throughput, before and after", "samples/s", plot.Whiskers, rates...),
		chart("Cumulative speed-up of what was kept", "times as fast", "The product of what each brought; it was not measured together.", together),
		chart("Device memory, before and after", "MiB", "", memory...),
		chart("What each brought", "times as fast", "Against the settings kept until then. ~ marks what is not known for sure.", gain),
	}
}
