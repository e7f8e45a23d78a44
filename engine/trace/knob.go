package trace

import "strings"

// Knob is one setting as text, so that old files replay after knobs are added.
type Knob struct{ Name, Value string }

// KnobValue returns the value of the knob of that name, empty when it is not among
// them.
func KnobValue(knobs []Knob, name string) string {
	for i := range knobs {
		if knobs[i].Name == name {
			return knobs[i].Value
		}
	}
	return ""
}

// KnobSpec describes a knob to the screen and to the flags.
type KnobSpec struct {
	Name     string
	Type     string   // "int", "bool", "enum", "duration", "text"
	Min, Max int      // for "int"
	Values   []string // for "enum"; for "int" the values that one keypress steps through, if any
	Applied  string   // when a change takes effect: "next batch", "next epoch", …
	NoEffect string   // why it has no effect on this device; empty when it has one
	Group    string   // "loader", "engine", "inject"
	Help     string   // one line
}

// Injects reports whether the segment's knobs ask for an injected bottleneck.
func (g *Segment) Injects() bool {
	for i := range g.Knobs {
		if !strings.HasPrefix(g.Knobs[i].Name, "inject_") {
			continue
		}
		switch g.Knobs[i].Value {
		case "", "off", "none", "0", "0s":
		default:
			return true
		}
	}
	return false
}
