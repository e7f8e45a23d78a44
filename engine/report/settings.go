package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Flags writes settings as flags of the command line, without what slows a run down on
// purpose.
func Flags(knobs []knob.Setting) string {
	var flags []string
	for _, k := range knobs {
		if !k.IsInject() && k.Name != "ceiling" {
			flags = append(flags, fmt.Sprintf("--%s=%s", knob.FlagName(k.Name), markup.ShellWord(k.Value)))
		}
	}
	return strings.Join(flags, " ")
}

// arguments are the arguments of PyTorch's DataLoader, in the order of its documentation,
// each with PyTorch's default; in_order is new in 2.6.
var arguments = []struct{ name, byDefault string }{
	{"batch_size", "1"}, {"shuffle", "False"}, {"num_workers", "0"}, {"pin_memory", "False"}, {"drop_last", "False"},
	{"timeout", "0"}, {"prefetch_factor", "2"}, {"persistent_workers", "False"}, {"in_order", "True"},
}

// idle holds the values, besides off, with which other knobs do only what PyTorch does
// anyway.
var idle = map[string]string{
	"precision": "fp32", "gradient_accumulation": "1", "reads_in_flight": "1", "shuffle_buffer": "1024", "on_error": "stop",
}

// excluded holds the arguments that a DataLoader refuses beside another one.
var excluded = map[string][]string{
	"sampler": {"shuffle"}, "batch_sampler": {"batch_size", "shuffle", "drop_last"}, "batch_size": {"batch_size", "drop_last"},
}

// DataLoader writes the settings of a session as PyTorch's line. The line has what differs
// from PyTorch's defaults, what is recommended, and what else the script gives its loader
// (from the session's facts). In beside are the settings that are no argument of a
// DataLoader.
func DataLoader(facts, knobs, recommended []knob.Setting) (line, beside string) {
	if len(knobs) == 0 {
		return "", ""
	}
	var given, without []string
	if text := knob.ValueOf(facts, trace.LoaderArguments); text != "" {
		given = strings.Split(text, ", ")
	}
	for _, g := range given {
		name, _, _ := strings.Cut(g, "=")
		without = append(without, excluded[name]...)
	}
	words := slices.Concat([]string{"dataset"}, ownArguments(knobs, recommended, without), given)
	return "DataLoader(" + strings.Join(words, ", ") + ")", strings.Join(others(knobs, recommended), ", ")
}

// ownArguments returns the arguments of a DataLoader that the knobs set.
func ownArguments(knobs, recommended []knob.Setting, without []string) (words []string) {
	inline := knob.Off(knob.ValueOf(knobs, "num_workers"))
	for _, a := range arguments {
		value := knob.ValueOf(knobs, a.name)
		switch {
		case value == "", inline && (a.name == "prefetch_factor" || a.name == "persistent_workers"):
			continue
		case slices.Contains(without, a.name):
			continue
		case a.name == "prefetch_factor" && knob.Off(value): // unset is PyTorch's default, and 0 would hang there
			continue
		}
		if v := inPython(a.name, value); v != a.byDefault || has(recommended, a.name) {
			words = append(words, a.name+"="+v)
		}
	}
	return words
}

// others returns the settings that are no argument of a DataLoader.
func others(knobs, recommended []knob.Setting) (words []string) {
	for _, k := range knobs {
		argument := slices.ContainsFunc(arguments, func(a struct{ name, byDefault string }) bool { return a.name == k.Name })
		if argument || k.IsInject() || k.Name == "ceiling" || k.Name == "time_ops" {
			continue
		}
		if !knob.Off(k.Value) && idle[k.Name] != k.Value || has(recommended, k.Name) {
			words = append(words, k.Name+"="+k.Value)
		}
	}
	return words
}

// inPython writes a value as Python does; a time is in seconds.
func inPython(name, value string) string {
	switch {
	case name == "timeout":
		d, _ := time.ParseDuration(value)
		return units.Rate(d.Seconds())
	case value == "on":
		return "True"
	case value == "off":
		return "False"
	}
	return value
}
