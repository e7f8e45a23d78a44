package knob

import (
	"strconv"
	"strings"
)

// Setting is one knob and its value as text, so that old files still replay after knobs are added.
type Setting struct{ Name, Value string }

// ValueOf returns the value of the setting of a name; empty when it is not among them.
func ValueOf(settings []Setting, name string) string {
	for i := range settings {
		if settings[i].Name == name {
			return settings[i].Value
		}
	}
	return ""
}

// flagNames are the flags of settings whose names are not the settings' own with dashes.
var flagNames = map[string]string{"checkpointing": "activation-checkpointing", NoBatchNorm: "batch-norm"}

// NoBatchNorm is the setting of a model that leaves a ResNet's batch norms out. Its flag says the
// opposite: --batch-norm=off.
const NoBatchNorm = "no_batch_norm"

// FlagName returns the name of the flag of a knob or a setting.
func FlagName(name string) string {
	if flag := flagNames[name]; flag != "" {
		return flag
	}
	return strings.ReplaceAll(name, "_", "-")
}

// FlagValue returns the value that the flag of a setting has.
func (s Setting) FlagValue() string {
	if s.Name == NoBatchNorm {
		return Opposite(s.Value)
	}
	return s.Value
}

// Opposite turns on into off and the other way; any other text stays.
func Opposite(value string) string {
	switch {
	case On(value):
		return "off"
	case value != "" && Off(value):
		return "on"
	}
	return value
}

// Join writes settings as name=value, with the separator between them.
func Join(settings []Setting, separator string) string {
	words := make([]string, len(settings))
	for i, k := range settings {
		words[i] = k.Name + "=" + k.Value
	}
	return strings.Join(words, separator)
}

// Spec describes a knob to the screen and to the flags.
type Spec struct {
	Name        string
	Type        string   // "int", "bool", "enum", "duration", "text"
	Min, Max    int      // for "int", both 0 where nothing bounds it; of a "duration" Max, in ms
	Values      []string // for "enum"; for "int" and "text" the values that one keypress steps through, if any
	Applied     string   // when a change takes effect: "next batch", "next epoch", …
	DefaultHere string   // the default on this device, where it differs from that of others
	NoEffect    string   // why it has no effect here; empty when it has one
	Bound       string   `json:",omitempty"` // why the value cannot be more than Max here; empty where Max is the limit everywhere
	Hint        string   `json:",omitempty"` // what would let the knob have an effect, or a larger value; empty where nothing would
	Group       string   // one of the groups
	Help        string   // one line
}

// Bars says why the knob cannot have a value here; empty where it can, as far as the spec knows.
func (s *Spec) Bars(value string) string {
	if n, err := strconv.Atoi(value); err == nil && s.Bound != "" && n > s.Max {
		return s.Bound
	}
	return s.NoEffect
}

// SpecOf returns the spec of the knob of a name; nil when it is not among them.
func SpecOf(specs []Spec, name string) *Spec {
	for i := range specs {
		if specs[i].Name == name {
			return &specs[i]
		}
	}
	return nil
}

// The groups of knobs, in the order in which they are shown.
const (
	GroupLoader = "loader"
	GroupEngine = "engine"
	GroupInject = "inject" // slow the run down on purpose; their names start with InjectPrefix
)

// InjectPrefix starts the name of every knob of GroupInject. Segments keep names without groups, so
// the name has to tell the group.
const InjectPrefix = GroupInject + "_"

// On reports whether a value is that of a switch that is on.
func On(value string) bool { return value == "on" || value == "true" || value == "1" }

// Off reports whether a value asks for nothing: a switch that is off, a time or number of 0, or no
// value.
func Off(value string) bool {
	switch value {
	case "", "0", "0s", "off", "false", "none":
		return true
	}
	return false
}

// IsInject reports whether the knob injects a bottleneck when it is not off.
func (s Setting) IsInject() bool { return strings.HasPrefix(s.Name, InjectPrefix) }
