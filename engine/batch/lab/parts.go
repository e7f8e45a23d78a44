package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
)

// mostFixes bounds how many fixes are tried in a row.
const mostFixes = 8

// elsewhere are the knobs that the advisor may name and that are no fix here: those with a
// stage of their own, and those that make another training of it.
var elsewhere = map[string]string{
	"batch_size": "it changes the training",
	"capture":    "", "precision": "", "gradient_accumulation": "", "checkpointing": "",
}

// fixes tries what the advisor says of a run, one by one in its order, and after each that
// helped what it says then.
func (l *Lab) fixes(ctx context.Context, m *sweep.Measured) error {
	tried := map[knob.Setting]bool{}
	for range mostFixes {
		f := l.next(m, tried)
		if f == nil {
			return nil
		}
		k := knob.Setting{Name: f.Knob, Value: f.Value}
		tried[k] = true
		o := &Optimization{Name: fmt.Sprintf("%s %s -> %s", f.Knob, l.inForce(f.Knob), f.Value), Why: f.Evidence, Adds: []knob.Setting{k}, For: Speed}
		if f.Predicted.Made() {
			o.Predicted = f.Gain()
		}
		s, err := l.measure(ctx, Fix, o.Name, []sweep.Config{l.config("before", nil), l.config("after", o.Adds)}, l.trial, l.Repeat)
		if err != nil {
			return err
		}
		l.decide(o, s, 1)
		if o.Kept {
			m = s.Results.Rows[1].First()
		}
	}
	return nil
}

// next is the advisor's first finding that was not tried; nil when there is none.
func (l *Lab) next(m *sweep.Measured, tried map[knob.Setting]bool) *advice.Finding {
	for i := range m.Findings {
		f := &m.Findings[i]
		if f.Knob == "" || f.Value == "" || tried[knob.Setting{Name: f.Knob, Value: f.Value}] {
			continue
		}
		if why, other := elsewhere[f.Knob]; other {
			if text := f.Remedy + ": " + why; why != "" && !slices.Contains(l.Left, text) {
				l.Left = append(l.Left, text)
			}
			continue
		}
		return f
	}
	return nil
}

// config is a configuration of the settings kept so far and others. All but the first of a
// stage stand on that one.
func (l *Lab) config(name string, adds []knob.Setting) sweep.Config {
	c := sweep.Config{Name: name, Before: -1, Settings: slices.Clone(l.now)}
	if adds != nil {
		c.Before, c.Adds, c.Settings = 0, adds, with(l.now, adds...)
	}
	return c
}

// grid is a stage's configurations: the value in force first, then the others.
func (l *Lab) grid(name string, values []string) []sweep.Config {
	now := l.inForce(name)
	configs := []sweep.Config{l.config(name+"="+now, nil)}
	for _, v := range values {
		if v != now {
			configs = append(configs, l.config(name+"="+v, []knob.Setting{{Name: name, Value: v}}))
		}
	}
	return configs
}

// fastest tries what a grid offers and keeps the one that is faster for sure, if any.
func (l *Lab) fastest(ctx context.Context, k Kind, name string, values []string, why string) error {
	configs := l.grid(name, values)
	was := l.inForce(name)
	s, err := l.measure(ctx, k, name, configs, l.trial, l.Repeat)
	if err != nil {
		return err
	}
	best := 0
	for i := 1; i < len(configs) && s.Results != nil; i++ {
		if r := s.row(i); r != nil && better(&r.Against.Throughput) && r.Rate.Value > s.Results.Rows[best].Rate.Value {
			best = i
		}
	}
	for i := 1; i < len(configs); i++ {
		o := &Optimization{Name: fmt.Sprintf("%s %s -> %s", name, was, configs[i].Adds[0].Value), Why: why, Adds: configs[i].Adds, For: Speed, Among: best != i}
		l.decide(o, s, i)
	}
	return nil
}

// workers sets num_workers against each other, beside the settings kept so far.
func (l *Lab) workers(ctx context.Context) error {
	now, _ := strconv.Atoi(l.inForce("num_workers"))
	values := []int{0, 1, 2, 4, 8, 16, 32, 64}
	most := max(2*l.Cores, now, 2)
	values = slices.DeleteFunc(values, func(n int) bool { return n > most })
	var configs []sweep.Config
	configs = append(configs, l.config(fmt.Sprintf("num_workers=%d", now), nil))
	for _, n := range values {
		if n == now {
			continue
		}
		adds := []knob.Setting{{Name: "num_workers", Value: strconv.Itoa(n)}}
		if n == 0 && now > 0 { // inline, nothing is prefetched and nobody persists
			for _, k := range with(l.base, l.now...) {
				if k.Name == "prefetch_factor" {
					adds = append(adds, knob.Setting{Name: k.Name, Value: "0"})
				}
				if k.Name == "persistent_workers" {
					adds = append(adds, knob.Setting{Name: k.Name, Value: "off"})
				}
			}
		}
		configs = append(configs, l.config(fmt.Sprintf("num_workers=%d", n), adds))
	}
	s, err := l.measure(ctx, Workers, "num_workers compared", configs, l.trial, l.Repeat)
	if err != nil {
		return err
	}
	best := 0
	for i := 1; i < len(configs); i++ {
		if r := s.row(i); r != nil && better(&r.Against.Throughput) && r.Rate.Value > s.Results.Rows[best].Rate.Value {
			best = i
		}
	}
	if best > 0 {
		l.decide(&Optimization{Name: fmt.Sprintf("num_workers %d -> %s", now, configs[best].Adds[0].Value), Why: "the fastest of those compared", Adds: configs[best].Adds, For: Speed}, s, best)
	}
	return nil
}

// validate measures the baseline and what was kept anew, over as many steps as the
// baseline had.
func (l *Lab) validate(ctx context.Context) error {
	if len(l.now) == 0 {
		l.Stages = append(l.Stages, &Stage{Kind: Validation, Title: "validation", Skipped: "no fix was kept"})
		return nil
	}
	s, err := l.measure(ctx, Validation, "validation", []sweep.Config{{Before: -1, Name: "baseline"}, {Before: 0, Name: "optimized", Adds: slices.Clone(l.now)}}, l.Long, l.Repeat)
	if r := s.row(1); err == nil && r != nil {
		l.Say(fmt.Sprintf("validation: throughput %v", &r.Against.Throughput))
	}
	return err
}

// precision tries the types that the device computes in.
func (l *Lab) precision(ctx context.Context) error {
	return l.fastest(ctx, Precision, "precision", []string{"fp32", "tf32", "fp16", "bf16"}, "the device may compute faster in a narrower type, and activations take less memory")
}

// accumulation tries to make the same optimizer step of several smaller batches.
func (l *Lab) accumulation(ctx context.Context) error {
	batch, _ := strconv.Atoi(l.inForce("batch_size"))
	was, _ := strconv.Atoi(l.inForce("gradient_accumulation"))
	whole := batch * max(1, was)
	configs := []sweep.Config{l.config(parts(was, batch), nil)}
	for _, n := range []int{1, 2, 4, 8} {
		if n != was && whole%n == 0 && whole/n > 0 {
			configs = append(configs, l.config(parts(n, whole/n), []knob.Setting{{Name: "gradient_accumulation", Value: strconv.Itoa(n)}, {Name: "batch_size", Value: strconv.Itoa(whole / n)}}))
		}
	}
	return l.spare(ctx, Accumulation, "accumulation", configs, fmt.Sprintf("an optimizer step on the same %d samples, of which fewer are on the device at a time", whole))
}

// parts names an accumulation.
func parts(n, batch int) string { return fmt.Sprintf("%dx%d", n, batch) }

// checkpointing tries to keep fewer activations.
func (l *Lab) checkpointing(ctx context.Context) error {
	return l.spare(ctx, Checkpointing, "checkpointing", l.grid("checkpointing", []string{"off", "on"}), "activations are computed again instead of being kept")
}

// spare tries what is there to save memory. It is kept by whoever needs the memory, not
// here: it is told what it would save and cost.
func (l *Lab) spare(ctx context.Context, k Kind, title string, configs []sweep.Config, why string) error {
	s, err := l.measure(ctx, k, title, configs, l.trial, l.Repeat)
	if err != nil {
		return err
	}
	for i := 1; i < len(configs); i++ {
		l.decide(&Optimization{Name: title + " " + strings.TrimPrefix(configs[i].Name, string(k)+"="), Why: why, Adds: configs[i].Adds, For: Memory}, s, i)
	}
	return nil
}

// capture tries to replay the step as one graph.
func (l *Lab) capture(ctx context.Context) error {
	return l.fastest(ctx, Capture, "capture", []string{"off", "on"}, "a captured step is one call where else each kernel is launched by the host; in PyTorch torch.compile with CUDA graphs does that")
}

// latest is the run that the settings kept so far were measured by; nil when there is none.
func (l *Lab) latest() *sweep.Measured {
	for _, o := range slices.Backward(l.Tried) {
		if r := o.row(); o.Kept && r != nil {
			return r.First()
		}
	}
	if r := l.stage(Baseline).row(0); r != nil {
		return r.First()
	}
	return nil
}

// ladder measures everything that was kept once more, each on top of those before it.
func (l *Lab) ladder(ctx context.Context) error {
	configs := []sweep.Config{{Before: -1, Name: "baseline"}}
	for _, o := range l.Tried {
		if o.Kept {
			configs = append(configs, sweep.Config{Before: len(configs) - 1, Name: rung(o.Adds), Adds: o.Adds})
		}
	}
	if len(configs) == 1 {
		l.Stages = append(l.Stages, &Stage{Kind: Ladder, Title: "all together", Skipped: "nothing was kept"})
		return nil
	}
	steps := l.trial
	if l.stage(Validation).Results == nil {
		steps = l.Long // it is the only one that measures what was kept anew
	}
	s, err := l.measure(ctx, Ladder, "all together", configs, steps, l.Repeat)
	if r := s.row(len(configs) - 1); err == nil && r != nil {
		l.Say(fmt.Sprintf("all together: throughput %v", &r.Against.Throughput))
	}
	return err
}

// rung is what is added, as a rung of a ladder is called.
func rung(adds []knob.Setting) string {
	words := make([]string, len(adds))
	for i, k := range adds {
		words[i] = k.Name + "=" + k.Value
	}
	return "+" + strings.Join(words, ",")
}

// better reports whether a change is faster for sure.
func better(c *stats.Change) bool { return c.Answer == stats.Different && c.Ratio > 1 }
