package lab

import (
	_ "embed"
	"io"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

//go:embed optimized_training.py.tmpl
var scriptText string

// constants are the knobs that the script has as constants, each with its value where the
// session does not tell.
var constants = []struct{ name, knob, byDefault string }{
	{"BATCH_SIZE", "batch_size", "128"}, {"NUM_WORKERS", "num_workers", "0"}, {"PREFETCH_FACTOR", "prefetch_factor", "2"},
	{"PIN_MEMORY", "pin_memory", "off"}, {"PERSISTENT_WORKERS", "persistent_workers", "off"}, {"IN_ORDER", "in_order", "on"},
	{"SHUFFLE", "shuffle", "on"}, {"DROP_LAST", "drop_last", "off"}, {"TIMEOUT", "timeout", "off"}, {"DEVICE_TRANSFORMS", "device_transforms", "off"},
	{"PRECISION", "precision", "fp32"}, {"GRADIENT_ACCUMULATION", "gradient_accumulation", "1"}, {"CHECKPOINTING", "checkpointing", "off"},
	{"COMPILE", "capture", "off"},
}

// Script writes a whole training in PyTorch with the settings found.
func (l *Record) Script(w io.Writer) error {
	_, err := io.WriteString(w, filled(scriptText, l.scriptValues()))
	return err
}

// scriptValues are what the script's text refers to. All of it is Python already, and "" is false there.
func (l *Record) scriptValues() map[string]string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	r := &l.Recipe
	values := map[string]string{
		"File": ScriptFile, "Class": "ResNet18", "Model": "ResNet-18", "Subject": quoted(l.subject()), "Headline": quoted(markup.Sentence(l.Headline())),
		"LR": number(r.LR), "Momentum": number(r.Momentum), "WeightDecay": number(r.WeightDecay), "Schedule": r.Schedule,
		"Optimizer": r.Optimizer, "Plain": "", "Warmup": "", "ByEpoch": "", "ByUpdate": "",
		"Transforms": "", "Train": "", "Test": "", "Module": ", transforms as T",
		"Small": "32", "Large": "224", // the sides of CIFAR's samples and of other images
		"Seed": "1", "Data": strconv.QuoteToASCII(l.Data),
	}
	if r.Optimizer == "" {
		values["Plain"] = "yes"
		values["Optimizer"] = "torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)"
	}
	if r.Warmup != 0 {
		values["Warmup"] = strconv.Itoa(r.Warmup)
	}
	if r.ByEpoch {
		values["ByEpoch"] = "yes"
	} else if r.Schedule != "" || r.Warmup > 0 { // it is stepped with each update
		values["ByUpdate"] = "yes"
	}
	if t := l.Transforms; t != nil {
		side := strconv.Itoa(t.Side)
		values["Transforms"], values["Train"], values["Test"], values["Module"], values["Small"], values["Large"] = "yes", t.Train, t.Test, "", side, side
	}
	if v := knob.ValueOf(l.Base, "seed"); v != "" {
		values["Seed"] = v
	}
	var notes []string
	if m := l.first(); m != nil {
		switch m.Meta.Model {
		case "cnn":
			values["Class"], values["Model"] = "CNN", "a CNN"
		case "resnet18":
		default:
			notes = append(notes, quoted("The lab's workload was "+m.Meta.Model+", which this script does not build: it trains ResNet-18 in its place")+".")
		}
	}
	for _, n := range l.Labels() {
		notes = append(notes, quoted(markup.Sentence(n.Words+": "+n.Sentence))+".")
	}
	if !l.done() {
		notes = append(notes, "The lab was stopped before its end, so these are the settings it had found until then.")
	}
	values["Notes"], values["Settings"] = strings.Join(notes, "\n"), l.constants()
	return values
}

// constants are the lines of the script that set what was found. Each says where the baseline was.
func (l *Record) constants() string {
	final := l.final()
	var was []knob.Setting
	if r := l.stage(Baseline).row(0); r != nil {
		was = r.First().Segment.Knobs
	}
	var lines []string
	for _, c := range constants {
		text := c.name + " = " + python(c.knob, knob.ValueOf(final, c.knob), c.byDefault)
		if before := c.name + " = " + python(c.knob, knob.ValueOf(was, c.knob), c.byDefault); before != text {
			text += "  # baseline: " + strings.TrimPrefix(before, c.name+" = ")
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// filled puts values into a text, and leaves out the lines whose condition is "". It knows {{.Name}}
// within a line, and as lines of their own {{- if .Name}}, {{- else if .Name}}, {{- else}} and {{- end}},
// not within each other. text/template would keep every exported method of the whole program, 10 MB,
// in the binary.
func filled(text string, values map[string]string) string {
	var pairs []string
	for name, v := range values {
		pairs = append(pairs, "{{."+name+"}}", v)
	}
	fill := strings.NewReplacer(pairs...)
	var out strings.Builder
	show, shown := true, true // the lines here; a branch of this condition
	for line := range strings.Lines(text) {
		directive, isOne := strings.CutPrefix(line, "{{- ")
		if !isOne {
			if show {
				_, _ = fill.WriteString(&out, line)
			}
			continue
		}
		directive = strings.TrimSuffix(directive, "}}\n")
		name, isElse := strings.CutPrefix(directive, "else")
		if !isElse {
			shown = false
		}
		switch _, name, conditional := strings.Cut(name, "if ."); {
		case directive == "end":
			show = true
		case conditional:
			show = !shown && values[name] != ""
		default:
			show = !shown
		}
		shown = shown || show
	}
	return out.String()
}

// python writes a knob's value as Python does.
func python(name, value, byDefault string) string {
	if value == "" || name == "prefetch_factor" && knob.Off(value) {
		value = byDefault
	}
	switch name {
	case "precision":
		return strconv.QuoteToASCII(value)
	case "timeout":
		if d, err := knob.ParseDuration(value); err == nil {
			return strconv.FormatFloat(d.Seconds(), 'g', -1, 64)
		}
		return "0"
	}
	switch value {
	case "on":
		return "True"
	case "off":
		return "False"
	}
	if _, err := strconv.Atoi(value); err != nil {
		return strconv.QuoteToASCII(value)
	}
	return value
}

// quoted makes a text from outside a line of a docstring.
func quoted(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"""`, `'''`).Replace(units.Line(s))
}
