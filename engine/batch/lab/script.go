package lab

import (
	_ "embed"
	"io"
	"strconv"
	"strings"
	"text/template"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

//go:embed optimized_training.py.tmpl
var scriptText string

var scriptTemplate = template.Must(template.New(ScriptFile).Parse(scriptText))

// script is what the template shows. All of it is Python text already.
type script struct {
	File, Model, Class, Subject, Headline string
	Notes                                 []string
	Settings                              []setting
	Recipe                                Recipe
	ByUpdate                              bool // there is a schedule that is stepped with each update
	Transforms                            *Transforms
	Small, Large                          int // the sides of CIFAR's samples and of other images
	Seed, Data                            string
}

// setting is a constant of the script.
type setting struct{ Name, Value, Was string }

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
	s := script{
		File: ScriptFile, Class: "ResNet18", Model: "ResNet-18",
		Subject: quoted(l.subject()), Headline: quoted(markup.Sentence(l.Headline())),
		Recipe: l.Recipe, Transforms: l.Transforms, Small: 32, Large: 224, Seed: "1", Data: strconv.QuoteToASCII(l.Data),
	}
	s.ByUpdate = !l.Recipe.ByEpoch && (l.Recipe.Schedule != "" || l.Recipe.Warmup > 0)
	if t := l.Transforms; t != nil {
		s.Small, s.Large = t.Side, t.Side
	}
	if v := knob.ValueOf(l.Base, "seed"); v != "" {
		s.Seed = v
	}
	if m := l.first(); m != nil {
		switch m.Meta.Model {
		case "cnn":
			s.Class, s.Model = "CNN", "a CNN"
		case "resnet18":
		default:
			s.Notes = append(s.Notes, quoted("The lab's workload was "+m.Meta.Model+", which this script does not build: it trains ResNet-18 in its place"))
		}
	}
	for _, n := range l.Labels() {
		s.Notes = append(s.Notes, quoted(markup.Sentence(n.Words+": "+n.Sentence)))
	}
	if !l.done() {
		s.Notes = append(s.Notes, "The lab was stopped before its end, so these are the settings it had found until then")
	}
	final := l.final()
	var was []knob.Setting
	if r := l.stage(Baseline).row(0); r != nil {
		was = r.First().Segment.Knobs
	}
	for _, c := range constants {
		now := python(c.knob, knob.ValueOf(final, c.knob), c.byDefault)
		before := python(c.knob, knob.ValueOf(was, c.knob), c.byDefault)
		if before == now {
			before = ""
		}
		s.Settings = append(s.Settings, setting{c.name, now, before})
	}
	return scriptTemplate.Execute(w, &s)
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
