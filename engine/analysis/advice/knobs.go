package advice

import (
	"fmt"
	"strconv"

	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// inForce holds the knobs of the steps judged, and the model that says what other values
// would do.
type inForce struct {
	settings []knob.Setting
	specs    []knob.Spec
	model    *predict.Model // nil where too little was measured
}

func newInForce(s *trace.Snapshot, segment int32) inForce {
	k := inForce{specs: s.Meta.Specs}
	if g := s.Segment(segment); g != nil {
		k.settings = g.Knobs
	}
	return k
}

// turn returns the finding that another value of a knob is worth trying.
func (k *inForce) turn(knob, value, why string) Finding {
	from := k.value(knob)
	f := Finding{Knob: knob, From: from, Value: value, Evidence: why, Remedy: "try " + knob + " " + value}
	if from != "" {
		f.Remedy = fmt.Sprintf("try %s %s -> %s", knob, from, value)
	}
	return f
}

// unbar changes a finding whose knob cannot have that value here. The finding then says what
// would allow it. unbar returns false where nothing would.
func (k *inForce) unbar(f Finding) (_ Finding, ok bool) {
	spec := knob.SpecOf(k.specs, f.Knob)
	if spec == nil || spec.Bars(f.Value) == "" {
		return f, true
	}
	change := f.Value
	if f.From != "" {
		change = f.From + " -> " + f.Value
	}
	return Finding{
		Remedy: fmt.Sprintf("to try %s %s, %s", f.Knob, change, spec.Hint), Evidence: join(spec.Bars(f.Value), f.Evidence), Share: f.Share, Free: f.Free, Barred: true,
	}, spec.Hint != ""
}

// predict returns what changes would do; false where the model cannot tell.
func (k *inForce) predict(changes ...knob.Setting) (trace.Prediction, bool) {
	if k.model == nil {
		return trace.Prediction{}, false
	}
	p, ok := k.model.Predict(changes...)
	return p.Prediction, ok
}

// foresee adds to a finding what its knob is predicted to do.
func (k *inForce) foresee(f *Finding) {
	if f.Value == "" || f.Before || f.Measured.Value > 0 || f.Free > 0 { // a gain over the judged steps would not be a lasting one
		return
	}
	if p, ok := k.predict(knob.Setting{Name: f.Knob, Value: f.Value}); ok {
		f.Predicted = p
	}
}

// value returns a knob's value in force; it is empty where that is unknown.
func (k *inForce) value(name string) string { return knob.ValueOf(k.settings, name) }

// number returns an integer knob's value in force.
func (k *inForce) number(name string) (int, bool) {
	n, err := strconv.Atoi(k.value(name))
	return n, err == nil
}

// can reports whether turning the switch on is possible and would change something.
func (k *inForce) can(name string) bool {
	if value := k.value(name); value == "" || !knob.Off(value) {
		return false
	}
	if spec := knob.SpecOf(k.specs, name); spec != nil {
		return spec.NoEffect == ""
	}
	return len(k.specs) == 0
}

// limit returns the largest value of an integer knob.
func (k *inForce) limit(name string, otherwise int) int {
	if spec := knob.SpecOf(k.specs, name); spec != nil && spec.Max > 0 {
		return spec.Max
	}
	return otherwise
}
