package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
)

// story plans the stages of one Run: which come in which order, with which configurations,
// and what is kept of each. It writes the Record; the bench does the runs.
type story struct {
	*Record
	bench *bench
	say   func(text string)
}

// run goes through all stages.
func (s *story) run(ctx context.Context) error {
	base, err := s.baseline(ctx)
	if err != nil {
		return err
	}
	if err := s.fixes(ctx, base); err != nil {
		return err
	}
	if err := s.workers(ctx); err != nil {
		return err
	}
	if err := s.validate(ctx); err != nil {
		return err
	}
	kept := len(s.now)
	for _, part := range []func(context.Context) error{s.precision, s.accumulation, s.checkpointing, s.capture} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if len(s.now) > kept { // a faster device may wait for a loader that was fast enough before
		if m := s.latest(); m != nil {
			if err := s.fixes(ctx, m); err != nil {
				return err
			}
		}
	}
	return s.ladder(ctx)
}

// baseline measures where the lab begins.
func (s *story) baseline(ctx context.Context) (*sweep.Measured, error) {
	if s.Inject {
		probe, err := s.bench.measure(ctx, Probe, "the baseline as it is", []sweep.Config{{Before: -1, Name: "as it is"}}, s.bench.trial, 1)
		if err != nil {
			return nil, err
		}
		s.slow(probe.row(0))
	}
	stage, err := s.bench.measure(ctx, Baseline, "baseline", []sweep.Config{{Before: -1, Name: "baseline"}}, s.Long, s.Repeat)
	if err != nil {
		return nil, err
	}
	m := stage.Results.Rows[0].First()
	s.say("diagnosis: " + m.Verdict.Text)
	return m, nil
}

// The length of slow reads. All reads of a step take slowness times as long as the step
// does, by the median, so that about two thirds of the time are lost to them. The median
// does not move when a neighbour slows a few steps down.
const (
	slowness  = 3
	leastRead = 50 * time.Microsecond // clocks do not keep to shorter times
)

// slow injects a slow read where the device does not wait for data: a loader that keeps up
// has nothing to show.
func (s *story) slow(r *sweep.Result) {
	_, highly := advice.Thresholds()
	if r == nil || r.Stats.DataShare() >= highly || r.Stats.Samples == 0 {
		return
	}
	wait := time.Duration(slowness * float64(r.P50) * float64(r.Stats.Steps) / float64(r.Stats.Samples)).Round(10 * time.Microsecond)
	s.Injected = knob.Duration(max(wait, leastRead))
	s.base = with(s.base, knob.Setting{Name: knob.InjectPrefix + "read", Value: s.Injected})
	s.say(fmt.Sprintf("the device waits for data %s of the time, which leaves nothing to improve: "+
		"each read is made to take %s longer (injected; --as-is, --data or --inject none leave it be)",
		units.Prose.Percent(r.Stats.DataShare()), units.Prose.Time(int64(s.slower()))))
}

// mostFixes bounds how many fixes are tried in a row.
const mostFixes = 8

// elsewhere are knobs that the advisor may name and that are no fix here, each with the
// reason. Those without a reason have a stage of their own.
var elsewhere = map[string]string{
	"batch_size": "it changes the training",
	"capture":    "", "precision": "", "gradient_accumulation": "", "checkpointing": "",
}

// fixes tries what the advisor says of a run, one by one in its order. After each fix that
// helped it asks the advisor again.
func (s *story) fixes(ctx context.Context, m *sweep.Measured) error {
	tried := map[knob.Setting]bool{}
	for range mostFixes {
		f := s.next(m, tried)
		if f == nil {
			return nil
		}
		k := knob.Setting{Name: f.Knob, Value: f.Value}
		tried[k] = true
		o := &Optimization{
			Name: fmt.Sprintf("%s %s -> %s", f.Knob, s.inForce(f.Knob), f.Value),
			Why:  f.Evidence, Adds: []knob.Setting{k}, For: Speed,
		}
		if f.Predicted.Made() {
			o.Predicted = f.Gain()
		}
		stage, err := s.bench.try(ctx, Fix, o.Name, []sweep.Config{s.config("before", nil), s.config("after", o.Adds)})
		if err != nil {
			return err
		}
		s.decide(o, stage, 1)
		if o.Kept {
			m = stage.Results.Rows[1].First()
		}
	}
	return nil
}

// next returns the advisor's first finding that was not tried; nil when there is none.
func (s *story) next(m *sweep.Measured, tried map[knob.Setting]bool) *advice.Finding {
	for i := range m.Findings {
		f := &m.Findings[i]
		if f.Knob == "" || f.Value == "" || tried[knob.Setting{Name: f.Knob, Value: f.Value}] {
			continue
		}
		if why, other := elsewhere[f.Knob]; other {
			if text := f.Remedy + ": " + why; why != "" && !slices.Contains(s.Left, text) {
				s.Left = append(s.Left, text)
			}
			continue
		}
		return f
	}
	return nil
}

// config returns a configuration of the settings kept so far and others. Only the first
// one of a stage adds nothing; the others are compared with it.
func (s *story) config(name string, adds []knob.Setting) sweep.Config {
	c := sweep.Config{Name: name, Before: -1, Settings: slices.Clone(s.now)}
	if adds != nil {
		c.Before, c.Adds, c.Settings = 0, adds, with(s.now, adds...)
	}
	return c
}

// grid returns a stage's configurations: the value in force first, then the others.
func (s *story) grid(name string, values []string) []sweep.Config {
	now := s.inForce(name)
	configs := []sweep.Config{s.config(name+"="+now, nil)}
	for _, v := range values {
		if v != now {
			configs = append(configs, s.config(name+"="+v, []knob.Setting{{Name: name, Value: v}}))
		}
	}
	return configs
}

// fastest tries the values of a knob and keeps the one that is faster for sure, if any.
func (s *story) fastest(ctx context.Context, k Kind, name string, values []string, why string) error {
	configs := s.grid(name, values)
	was := s.inForce(name)
	stage, err := s.bench.try(ctx, k, name, configs)
	if err != nil {
		return err
	}
	best := stage.fastest()
	for i := 1; i < len(configs); i++ {
		o := &Optimization{
			Name: fmt.Sprintf("%s %s -> %s", name, was, configs[i].Adds[0].Value),
			Why:  why, Adds: configs[i].Adds, For: Speed, Among: best != i,
		}
		s.decide(o, stage, i)
	}
	return nil
}

// workers compares numbers of workers, beside the settings kept so far.
func (s *story) workers(ctx context.Context) error {
	now, _ := strconv.Atoi(s.inForce("num_workers"))
	most := max(2*s.Cores, now, 2)
	configs := []sweep.Config{s.config(fmt.Sprintf("num_workers=%d", now), nil)}
	for _, n := range []int{0, 1, 2, 4, 8, 16, 32, 64} {
		if n == now || n > most {
			continue
		}
		adds := []knob.Setting{{Name: "num_workers", Value: strconv.Itoa(n)}}
		if n == 0 && now > 0 {
			adds = append(adds, s.inline()...)
		}
		configs = append(configs, s.config(fmt.Sprintf("num_workers=%d", n), adds))
	}
	stage, err := s.bench.try(ctx, Workers, "num_workers compared", configs)
	if err != nil {
		return err
	}
	if best := stage.fastest(); best > 0 {
		o := &Optimization{
			Name: fmt.Sprintf("num_workers %d -> %s", now, configs[best].Adds[0].Value),
			Why:  "the fastest of those compared", Adds: configs[best].Adds, For: Speed,
		}
		s.decide(o, stage, best)
	}
	return nil
}

// inline returns the settings that have to change where the step loop loads by itself:
// then nothing is prefetched and no worker persists.
func (s *story) inline() (adds []knob.Setting) {
	for _, k := range with(s.base, s.now...) {
		switch k.Name {
		case "prefetch_factor":
			adds = append(adds, knob.Setting{Name: k.Name, Value: "0"})
		case "persistent_workers":
			adds = append(adds, knob.Setting{Name: k.Name, Value: "off"})
		}
	}
	return adds
}

// skip notes a stage that has nothing to run.
func (s *story) skip(k Kind, title, why string) {
	s.Stages = append(s.Stages, &Stage{Kind: k, Title: title, Skipped: why})
}

// validate measures the baseline and what was kept anew, over as many steps as the
// baseline had.
func (s *story) validate(ctx context.Context) error {
	if len(s.now) == 0 {
		s.skip(Validation, "validation", "no fix was kept")
		return nil
	}
	configs := []sweep.Config{
		{Before: -1, Name: "baseline"},
		{Before: 0, Name: "optimized", Adds: slices.Clone(s.now)},
	}
	stage, err := s.bench.measure(ctx, Validation, "validation", configs, s.Long, s.Repeat)
	if r := stage.row(1); err == nil && r != nil {
		s.say(fmt.Sprintf("validation: throughput %v", &r.Against.Throughput))
	}
	return err
}

// precision tries the types that the device computes in.
func (s *story) precision(ctx context.Context) error {
	return s.fastest(ctx, Precision, "precision", []string{"fp32", "tf32", "fp16", "bf16"},
		"the device may compute faster in a narrower type, and activations take less memory")
}

// accumulation tries to make the same optimizer step of several smaller batches.
func (s *story) accumulation(ctx context.Context) error {
	batch, _ := strconv.Atoi(s.inForce("batch_size"))
	was, _ := strconv.Atoi(s.inForce("gradient_accumulation"))
	whole := batch * max(1, was)
	configs := []sweep.Config{s.config(parts(was, batch), nil)}
	for _, n := range []int{1, 2, 4, 8} {
		if n != was && whole%n == 0 && whole/n > 0 {
			configs = append(configs, s.config(parts(n, whole/n), []knob.Setting{
				{Name: "gradient_accumulation", Value: strconv.Itoa(n)},
				{Name: "batch_size", Value: strconv.Itoa(whole / n)},
			}))
		}
	}
	why := fmt.Sprintf("an optimizer step on the same %d samples, of which fewer are on the device at a time", whole)
	return s.spare(ctx, Accumulation, "accumulation", configs, why)
}

// parts names an accumulation: batches, and samples of each.
func parts(n, batch int) string { return fmt.Sprintf("%dx%d", n, batch) }

// checkpointing tries to keep fewer activations.
func (s *story) checkpointing(ctx context.Context) error {
	return s.spare(ctx, Checkpointing, "checkpointing", s.grid("checkpointing", []string{"off", "on"}),
		"activations are computed again instead of being kept")
}

// spare tries what saves memory. It keeps nothing, since only the user knows whether the
// memory is needed: the report says what each would save and cost.
func (s *story) spare(ctx context.Context, k Kind, title string, configs []sweep.Config, why string) error {
	stage, err := s.bench.try(ctx, k, title, configs)
	if err != nil {
		return err
	}
	for i := 1; i < len(configs); i++ {
		name := title + " " + strings.TrimPrefix(configs[i].Name, string(k)+"=")
		s.decide(&Optimization{Name: name, Why: why, Adds: configs[i].Adds, For: Memory}, stage, i)
	}
	return nil
}

// capture tries to replay the step as one graph.
func (s *story) capture(ctx context.Context) error {
	return s.fastest(ctx, Capture, "capture", []string{"off", "on"},
		"a captured step is one call where else each kernel is launched by the host; in PyTorch torch.compile with CUDA graphs does that")
}

// ladder measures everything that was kept once more, each on top of those before it.
func (s *story) ladder(ctx context.Context) error {
	configs := []sweep.Config{{Before: -1, Name: "baseline"}}
	for _, o := range s.kept() {
		configs = append(configs, sweep.Config{Before: len(configs) - 1, Name: "+" + knob.Join(o.Adds, ","), Adds: o.Adds})
	}
	if len(configs) == 1 {
		s.skip(Ladder, "all together", "nothing was kept")
		return nil
	}
	steps := s.bench.trial
	if s.stage(Validation).Results == nil {
		steps = s.Long // no other stage measures what was kept anew
	}
	stage, err := s.bench.measure(ctx, Ladder, "all together", configs, steps, s.Repeat)
	if r := stage.row(len(configs) - 1); err == nil && r != nil {
		s.say(fmt.Sprintf("all together: throughput %v", &r.Against.Throughput))
	}
	return err
}

// decide notes what a change did. It keeps a change that is there for speed and is faster
// for sure.
func (s *story) decide(o *Optimization, stage *Stage, row int) {
	o.Stage, o.Row = stage, row
	o.Kept = o.For == Speed && !o.Among && o.row() != nil && better(o.change())
	s.Tried = append(s.Tried, o)
	if o.Kept {
		s.now = with(s.now, o.Adds...)
	}
	s.say(o.Name + ": " + o.Outcome())
}

// better reports whether a change is faster for sure.
func better(c *stats.Change) bool { return c.Answer == stats.Different && c.Ratio > 1 }
