package experiment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// run is a simulated training, which is its own Control and Log. The knobs determine how long a
// step takes.
type run struct {
	t       *testing.T
	session *trace.Session
	random  *rand.Rand
	noise   float64

	inForce, wanted []knob.Setting
	index           int32 // of the segment
	step            int32
	now             int64
	transition      int  // steps left of it
	hold            int  // steps until what is wanted comes into force
	refuse          bool // Set fails
	forward         bool // Set fails for what was in force at the start
	cannot          bool // the engine withdraws the requested change
	barred          bool // ... and says so in the knobs alone
	pauses          bool // the next step has a pause in it
	evaluates       int  // steps between evaluations; 0: there is none
	midway          bool // an evaluation interrupts its epoch

	world      func(knobs []knob.Setting) (wall, busy, load float64) // of a step, ms; nil: long says it
	impossible func(knobs []knob.Setting) bool                       // the engine withdraws them
}

const stepNs = 20e6

func newRun(t *testing.T) *run {
	r := &run{
		t: t, session: trace.NewSession(trace.Meta{Seed: 1, Specs: []knob.Spec{
			{Name: "num_workers", Type: "int", Max: 64}, {Name: "pin_memory", Type: "bool"}, {Name: "ceiling", Type: "bool"},
		}}),
		random: rand.New(rand.NewPCG(1, 2)), noise: 0.05, index: -1,
		inForce: []knob.Setting{{Name: "num_workers", Value: "2"}, {Name: "pin_memory", Value: "off"}, {Name: "ceiling", Value: "off"}},
	}
	r.wanted = r.inForce
	r.open("start")
	r.train(150)
	return r
}

func (r *run) Set(changes []knob.Setting) error {
	if r.refuse || r.forward && slices.ContainsFunc(changes, func(k knob.Setting) bool { return k.Name == "num_workers" && k.Value == "1" }) {
		return errors.New("set num_workers: no")
	}
	r.wanted = slices.Clone(r.wanted)
	for _, c := range changes {
		for i := range r.wanted {
			if r.wanted[i].Name == c.Name {
				r.wanted[i].Value = c.Value
			}
		}
	}
	return nil
}

func (r *run) Requested() []knob.Setting { return slices.Clone(r.wanted) }
func (r *run) Experiment(x trace.Experiment) {
	x.Pairs = slices.Clone(x.Pairs)
	r.session.Add(&trace.Drained{Now: r.now, Experiments: []trace.Experiment{x}})
}
func (r *run) Note(level, text string) {
	r.session.Add(&trace.Drained{Now: r.now, Notes: []trace.Note{{T: r.now, Level: level, Text: text}}})
}

func (r *run) open(reason string) { r.segment(trace.Segment{Reason: reason}) }

func (r *run) segment(g trace.Segment) {
	r.index++
	g.Index, g.Start, g.FirstStep, g.Knobs = r.index, r.now, r.step, r.inForce
	r.session.Add(&trace.Drained{Now: r.now, Segments: []trace.Segment{g}})
}

// renew makes the script create a new loader, whose own settings are in force for so many
// steps.
func (r *run) renew(steps int) {
	r.inForce = slices.Clone(r.inForce)
	r.inForce[0].Value, r.hold = "2", steps
	r.segment(trace.Segment{ByScript: true})
}

// long returns how long a step takes. With num_workers=4 it is a quarter faster, with 1 a
// quarter slower, with 3 no different. Half of the time is a wait for data.
func (r *run) long() float64 {
	switch {
	case knob.ValueOf(r.inForce, "ceiling") == "on":
		return 0.5
	case knob.ValueOf(r.inForce, "num_workers") == "4":
		return 0.8
	case knob.ValueOf(r.inForce, "num_workers") == "1":
		return 1.25
	}
	return 1
}

// train runs so many steps.
func (r *run) train(steps int) {
	for range steps {
		if r.hold > 0 {
			r.hold--
		} else if !slices.Equal(r.wanted, r.inForce) {
			if r.cannot || r.impossible != nil && r.impossible(r.wanted) {
				r.Note("error", "num_workers 2 -> 4"+trace.NotApplied+"too little memory")
				r.wanted = r.inForce
			} else if r.barred {
				r.session.Add(&trace.Drained{Now: r.now, Specs: []knob.Spec{{Name: "num_workers", NoEffect: "it cannot be sent"}}})
				r.wanted = r.inForce
			} else {
				r.inForce, r.transition = r.wanted, 5
				r.open("a change")
			}
		}
		noise := max(0.2, 1+r.noise*r.random.NormFloat64())
		s := trace.Step{Index: r.step, Batch: r.step, Segment: r.index, Samples: 32, Start: r.now, End: r.now + int64(stepNs*r.long()*noise), Busy: stepNs / 4}
		if r.world != nil {
			wall, busy, load := r.world(r.inForce)
			s.Busy, s.Load = int64(1e6*busy), int64(1e6*load*noise)
			s.End = s.Start + max(s.Busy, int64(1e6*wall*noise))
			s.Stall[trace.CauseRead] = s.End - s.Start - s.Busy
			s.Work.Batch = trace.Split{Blocked: s.Load}
		}
		if r.transition > 0 {
			r.transition--
			s.Flags |= trace.FlagTransition
		}
		if r.pauses {
			r.pauses = false
			s.Stall[trace.CausePaused] = 5e9
			s.End += 5e9
		}
		if r.evaluates > 0 && int(r.step)%r.evaluates == 0 {
			if !r.midway {
				s.Flags |= trace.FlagFirstOfEpoch
			}
			s.Stall[trace.CausePaused] += 5e8
			s.End += 5e8
		}
		r.now = s.End
		r.step++
		r.session.Add(&trace.Drained{Now: r.now, Steps: []trace.Step{s}})
	}
}

// until trains and looks every 5 steps until the experiment is over, or gives up.
func (r *run) until(e *Experiment) {
	r.t.Helper()
	for range 6000 {
		if e.Look(r.session.Snapshot(0, 0)) {
			r.train(200)
			return
		}
		r.train(5)
	}
	r.t.Fatalf("it goes on for ever: %+v", e.x)
}

func (r *run) begin(q Question) *Experiment {
	r.t.Helper()
	e, err := New(q, r.session.Snapshot(0, 0), r, r)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// workers returns the question whether num_workers=n is faster.
func workers(n int) Question {
	return Question{Kind: trace.Paired, Knobs: []knob.Setting{{Name: "num_workers", Value: strconv.Itoa(n)}}}
}

func (r *run) settings() string {
	return fmt.Sprint(knob.ValueOf(r.inForce, "num_workers"), " ", knob.ValueOf(r.inForce, "pin_memory"), " ", knob.ValueOf(r.inForce, "ceiling"))
}
