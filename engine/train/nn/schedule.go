package nn

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// Schedule says how the learning rate changes while a model trains, in the words of
// torch.optim.lr_scheduler. As text it is a name and settings: "cosine,warmup=500". The
// zero value is "auto". It is the Recipe's warm-up while the optimizer is auto, and else
// constant.
type Schedule struct {
	Kind ScheduleKind

	Steps        float64 // updates that cosine and onecycle take; 0: all of the run
	StepSize     float64 // epochs
	Gamma        float64
	Warmup       float64 // updates
	MinLR        float64 // PyTorch's eta_min
	MaxLR        float64 // 0: the optimizer's
	PctStart     float64
	DivFactor    float64
	FinalDiv     float64
	BaseMomentum float64
	MaxMomentum  float64
}

// ScheduleKind is a row of the table of schedules.
type ScheduleKind uint8

const (
	AutoSchedule ScheduleKind = iota
	Constant
	StepLR
	Cosine
	OneCycle
)

var stepsSetting = setting[Schedule]{"steps", 0, func(s *Schedule) *float64 { return &s.Steps }, atLeast0}

// schedules lists all schedules.
var schedules = [...]struct {
	name     string
	settings settings[Schedule]
	at       func(s *Schedule, p Progress, h Hyper) Hyper
}{
	AutoSchedule: {"auto", nil, constant},
	Constant:     {"constant", nil, constant},
	StepLR: {"step", settings[Schedule]{
		{"step_size", 30, func(s *Schedule) *float64 { return &s.StepSize }, positive},
		{"gamma", 0.1, func(s *Schedule) *float64 { return &s.Gamma }, positive},
	}, stepLR},
	Cosine: {"cosine", settings[Schedule]{
		{"warmup", 0, func(s *Schedule) *float64 { return &s.Warmup }, atLeast0},
		{"min_lr", 0, func(s *Schedule) *float64 { return &s.MinLR }, atLeast0},
		stepsSetting,
	}, cosine},
	OneCycle: {"onecycle", settings[Schedule]{
		{"max_lr", 0, func(s *Schedule) *float64 { return &s.MaxLR }, atLeast0},
		{"pct_start", 0.3, func(s *Schedule) *float64 { return &s.PctStart }, limits{most: 1}},
		{"div_factor", 25, func(s *Schedule) *float64 { return &s.DivFactor }, positive},
		{"final_div_factor", 1e4, func(s *Schedule) *float64 { return &s.FinalDiv }, positive},
		{"base_momentum", 0.85, func(s *Schedule) *float64 { return &s.BaseMomentum }, fraction},
		{"max_momentum", 0.95, func(s *Schedule) *float64 { return &s.MaxMomentum }, fraction},
		stepsSetting,
	}, oneCycle},
}

// ScheduleNames lists the names of schedules, the default first.
func ScheduleNames() []string {
	var names []string
	for i := range schedules {
		names = append(names, schedules[i].name)
	}
	return names
}

// ScheduleSettings lists the settings of the named schedule with their defaults.
func ScheduleSettings(name string) []string {
	for i := range schedules {
		if schedules[i].name == name {
			return schedules[i].settings.list()
		}
	}
	return nil
}

// ParseSchedule parses a Schedule. Its error is an errs.Reason that names the word.
func ParseSchedule(text string) (Schedule, error) {
	name, rest, more := strings.Cut(text, ",")
	name = strings.TrimSpace(name)
	for i := range schedules {
		row := &schedules[i]
		if row.name != name {
			continue
		}
		s := Schedule{Kind: ScheduleKind(i)}
		row.settings.defaults(&s)
		if !more {
			return s, nil
		}
		err := row.settings.read(name, rest, &s, nil, nil)
		return s, err
	}
	return Schedule{}, errs.Reason(fmt.Sprintf("there is no schedule %q", name), "choose "+errs.Choice(ScheduleNames()))
}

// String returns the text that ParseSchedule parses.
func (s Schedule) String() string {
	row := &schedules[s.Kind]
	return strings.Join(row.settings.write([]string{row.name}, &s), ",")
}

// Torch returns the Python expression that makes the schedule in PyTorch, empty for none.
// updates, the number of updates, is an expression too; LR in it is the optimizer's rate.
// The schedule is stepped after each epoch with byEpoch, otherwise after each update.
func (s *Schedule) Torch(updates string, cycles bool) (expression string, byEpoch bool) {
	const module = "torch.optim.lr_scheduler."
	if s.Steps > 0 {
		updates = strconv.Itoa(int(s.Steps))
	}
	switch s.Kind {
	case StepLR:
		if s.StepSize != math.Trunc(s.StepSize) {
			return fmt.Sprintf("%sLambdaLR(optimizer, lambda epoch: %s ** (epoch // %s))", module, number(s.Gamma), number(s.StepSize)), true
		}
		return fmt.Sprintf("%sStepLR(optimizer, step_size=%s, gamma=%s)", module, number(s.StepSize), number(s.Gamma)), true
	case Cosine:
		w := int(math.Ceil(s.Warmup))
		down := fmt.Sprintf("%sCosineAnnealingLR(optimizer, T_max=max(1, %s - %d), eta_min=%s)", module, updates, w, number(s.MinLR))
		if w < 2 {
			return down, false
		}
		return fmt.Sprintf("%[1]sSequentialLR(optimizer, [%[1]sLinearLR(optimizer, start_factor=1 / %[2]d, total_iters=%[2]d - 1), %[3]s], [%[2]d])", module, w, down), false
	case OneCycle:
		most, momentum := "LR", fmt.Sprintf("base_momentum=%s, max_momentum=%s", number(s.BaseMomentum), number(s.MaxMomentum))
		if s.MaxLR > 0 {
			most = number(s.MaxLR)
		}
		if !cycles {
			momentum = "cycle_momentum=False"
		}
		return fmt.Sprintf("%sOneCycleLR(optimizer, max_lr=%s, total_steps=%s, pct_start=%s, div_factor=%s, final_div_factor=%s, %s)",
			module, most, updates, number(s.PctStart), number(s.DivFactor), number(s.FinalDiv), momentum), false
	}
	return "", false
}

// UnmarshalText makes a Schedule a knob's value.
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSchedule(string(text))
	return err
}

// NeedsEnd reports whether the schedule depends on the length of the run.
func (s *Schedule) NeedsEnd() bool { return (s.Kind == Cosine || s.Kind == OneCycle) && s.Steps == 0 }

// Progress is where a run is, from where its schedule began.
type Progress struct {
	Update int  // of the optimizer, counted from 0
	Total  int  // updates of the run; 0: it has no end
	Epoch  int  // counted from 0
	Cycles bool // the optimizer has a momentum that may be changed
}

// At returns an optimizer's settings h as the schedule changes them. After the
// schedule's end they stay.
func (s *Schedule) At(p Progress, h Hyper) Hyper {
	if s.Steps > 0 {
		p.Total = int(s.Steps)
	}
	return schedules[s.Kind].at(s, p, h)
}

func constant(_ *Schedule, _ Progress, h Hyper) Hyper { return h }

// stepLR is StepLR, a step an epoch.
func stepLR(s *Schedule, p Progress, h Hyper) Hyper {
	h.LR *= math.Pow(s.Gamma, math.Floor(float64(p.Epoch)/s.StepSize))
	return h
}

// cosine is a LinearLR that begins at 1/warmup and then CosineAnnealingLR, a step an update.
func cosine(s *Schedule, p Progress, h Hyper) Hyper {
	u, w := float64(p.Update), s.Warmup
	if u < w {
		h.LR *= (u + 1) / w
		return h
	}
	h.LR = anneal(h.LR, s.MinLR, min(1, (u-w)/max(1, float64(p.Total)-w)))
	return h
}

// oneCycle is OneCycleLR with two phases and cosines, a step an update (Smith and Topin,
// "Super-convergence", 2017). The momentum goes the other way.
func oneCycle(s *Schedule, p Progress, h Hyper) Hyper {
	most := s.MaxLR
	if most == 0 {
		most = h.LR
	}
	first := most / s.DivFactor
	u, last := float64(p.Update), float64(p.Total)-1
	top := s.PctStart*float64(p.Total) - 1
	var momentum float64
	if u < top {
		h.LR, momentum = anneal(first, most, u/top), anneal(s.MaxMomentum, s.BaseMomentum, u/top)
	} else {
		x := min(1, (u-top)/max(last-top, 1e-9))
		h.LR, momentum = anneal(most, first/s.FinalDiv, x), anneal(s.BaseMomentum, s.MaxMomentum, x)
	}
	if p.Cycles {
		h.Momentum = momentum
	}
	return h
}

// anneal returns a value between from and to on half a cosine, as x goes from 0 to 1.
func anneal(from, to, x float64) float64 {
	return to + (from-to)/2*(1+math.Cos(math.Pi*x))
}

// Cycles reports whether the optimizer has a momentum that a schedule may change.
func (o *Optimizer) Cycles() bool {
	if !o.Chosen {
		return true // the recipe's
	}
	for _, s := range findOptimizer(o.Rule.String()).settings {
		if s.name == "momentum" || s.name == "beta1" {
			return true
		}
	}
	return false
}
