package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// keep says which settings to keep, in the words of the command line and of PyTorch,
// and what to try next.
func (m *markdown) keep() {
	m.heading(2, "What to keep, and what next")
	defer m.line("")
	if m.first < 0 || m.s.Total.Steps == 0 {
		m.line("- Run it again until at least %d steps are finished.", advice.MinSteps)
		return
	}
	if m.s.Diverged > 0 {
		m.line("- The training diverged at step %s: lower the learning rate before anything else.", units.Count(m.s.DivergedAt))
	}
	a := &m.advice
	row := m.kept
	knobs := m.rows[row].Segment.Knobs
	if a.Keep.Open {
		m.line("- Not decided: %s.", a.Keep.Text)
	} else if flags := Flags(advice.Changed(m.rows[0].Segment.Knobs, knobs)); flags != "" {
		m.line("- Keep the settings of segment %s. As flags, beside those of the run:", m.rows[row].Name())
		m.fenced(flags)
	} else if a.Keep.Text != "" && row != 0 {
		m.line("- Keep the settings of segment %s, which need no flags beside those of the run.", m.rows[row].Name())
	} else if a.Keep.Text != "" {
		m.line("- Keep the settings of segment %s, with which the run was started.", m.rows[row].Name())
	} else if m.s.Meta.Imported == "" {
		m.line("- Nothing was compared, so there is no choice yet.")
	}
	if line, beside := DataLoader(m.s.Meta.Host, knobs, a.Keep.Knobs); line != "" {
		which := "These settings"
		if a.Keep.Open {
			which = "The baseline's settings"
		}
		m.line("- %s in PyTorch:", which)
		m.fenced(line)
		if beside != "" {
			m.line("- No argument of a DataLoader: %s.", beside)
		}
	}
	if row != 0 { // whose verdict was told
		m.line("- With the settings to keep (segment %s): %s.", m.rows[row].Name(), a.Verdict.Text)
	}
	if text := a.Text(); text != "" {
		m.line("- Next, from segment %s: %s.", m.rows[row].Name(), text)
	}
	if a.Ceiling.Text != "" {
		m.line("- %s.", sentence(a.Ceiling.Text))
	}
	if a.Verdict.Class == advice.NotEnoughSteps {
		m.line("- Next: run segment %s longer.", m.rows[row].Name())
	}
	if a.Costly.Text != "" {
		m.line("- %s.", sentence(a.Costly.Text))
	}
	for i := range a.Asides {
		m.line("- To know: %s.", a.Asides[i].Evidence)
	}
}

// Flags are settings as they are given on the command line.
func Flags(knobs []knob.Setting) string {
	var flags []string
	for _, k := range knobs {
		if !k.IsInject() && k.Name != "ceiling" {
			flags = append(flags, fmt.Sprintf("--%s=%s", strings.ReplaceAll(k.Name, "_", "-"), markup.ShellWord(k.Value)))
		}
	}
	return strings.Join(flags, " ")
}

// arguments are those of PyTorch's DataLoader, in the order of its documentation, each
// with its default there; in_order is new in 2.6.
var arguments = []struct{ name, byDefault string }{
	{"batch_size", "1"}, {"shuffle", "False"}, {"num_workers", "0"}, {"pin_memory", "False"}, {"drop_last", "False"},
	{"timeout", "0"}, {"prefetch_factor", "2"}, {"persistent_workers", "False"}, {"in_order", "True"},
}

// idle are the values, beside off, with which other knobs do nothing that PyTorch would not.
var idle = map[string]string{
	"precision": "fp32", "gradient_accumulation": "1", "reads_in_flight": "1", "shuffle_buffer": "1024", "on_error": "stop",
}

// excluded are the arguments that a DataLoader refuses beside another one.
var excluded = map[string][]string{
	"sampler": {"shuffle"}, "batch_sampler": {"batch_size", "shuffle", "drop_last"}, "batch_size": {"batch_size", "drop_last"},
}

// DataLoader is PyTorch's line for some settings of a session: what is not its default there,
// what is recommended, and what else the script gives its loader by the session's facts. beside are those
// that are none of its arguments.
func DataLoader(facts, knobs, recommended []knob.Setting) (line, beside string) {
	if len(knobs) == 0 {
		return "", ""
	}
	words := []string{"dataset"}
	var given, without []string
	if text := knob.ValueOf(facts, trace.LoaderArguments); text != "" {
		given = strings.Split(text, ", ")
	}
	for _, g := range given {
		name, _, _ := strings.Cut(g, "=")
		without = append(without, excluded[name]...)
	}
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
	var others []string
	for _, k := range knobs {
		argument := slices.ContainsFunc(arguments, func(a struct{ name, byDefault string }) bool { return a.name == k.Name })
		if argument || k.IsInject() || k.Name == "ceiling" || k.Name == "time_ops" {
			continue
		}
		if !knob.Off(k.Value) && idle[k.Name] != k.Value || has(recommended, k.Name) {
			others = append(others, k.Name+"="+k.Value)
		}
	}
	return "DataLoader(" + strings.Join(slices.Concat(words, given), ", ") + ")", strings.Join(others, ", ")
}

// inPython is a value as Python writes it; a time is in seconds.
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
