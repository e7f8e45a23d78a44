// Package sweep measures many configurations one after the other: a grid over knobs,
// devices, models and data sets, or a ladder of settings, each added to those before it.
// The session files hold what each run measured, and everything else is made from them. So
// a sweep can be stopped and resumed, looked at again, and compared with another one.
package sweep

import (
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
)

// Settings that can be varied although they are no knobs.
const (
	Device = "device"
	Model  = "model"
	Data   = "data"

	Stem        = "stem"
	NoBatchNorm = knob.NoBatchNorm
)

// Config is one configuration.
type Config struct {
	Name     string         `json:"name"`              // what it is called: "num_workers=2", "+pin_memory=on"
	Settings []knob.Setting `json:"settings"`          // beside the plan's
	Adds     []knob.Setting `json:"adds,omitempty"`    // of a rung: what it adds to the rung below
	Before   int            `json:"before"`            // of a rung: the rung below; -1 for none
	Refused  string         `json:"refused,omitempty"` // why it cannot be run here
	Idle     []string       `json:"idle,omitempty"`    // what of it has no effect here, a sentence each
	Failed   string         `json:"failed,omitempty"`  // why the last run of it failed
}

// Plan is what a sweep is to measure.
type Plan struct {
	Base    []knob.Setting `json:"base"` // what all configurations have in common, as far as it was chosen
	Configs []Config       `json:"configs"`
	Ladder  bool           `json:"ladder"`
	Steps   int            `json:"steps"`             // of each run, that count
	Warmup  int            `json:"warmup"`            // steps before them, which do not count
	Epochs  int            `json:"epochs,omitempty"`  // of each run, instead of Steps; each ends in an evaluation
	Repeat  int            `json:"repeat"`            // runs of each configuration
	Cluster bool           `json:"cluster,omitempty"` // the runs are a cluster's tasks, in its order
	Version string         `json:"version"`

	Command []string `json:"command,omitempty"` // of the user's, with {knob} where a setting belongs; empty for gpustall's own training
}

// Axis is a setting and the values that it takes in a grid.
type Axis struct {
	Name   string
	Values []string
}

// Grid makes a configuration of every combination of values; the last axis varies
// fastest. Without axes it is the base alone.
func Grid(axes []Axis) []Config {
	configs := []Config{{Before: -1}}
	for _, a := range axes {
		var next []Config
		for _, c := range configs {
			for _, v := range a.Values {
				n := Config{Before: -1, Settings: append(slices.Clone(c.Settings), knob.Setting{Name: a.Name, Value: v})}
				next = append(next, n)
			}
		}
		configs = next
	}
	for i := range configs {
		configs[i].Name = title(configs[i].Settings)
	}
	return configs
}

// title writes settings in a line.
func title(settings []knob.Setting) string {
	if len(settings) == 0 {
		return "baseline"
	}
	return knob.Join(settings, " ")
}

// Ladder reads rungs with semicolons between them: "baseline; num_workers=4; +pin_memory;
// +precision=bf16". A rung with a plus keeps all settings of the rung before it; one
// without starts from the baseline. Several settings of a rung have commas between them,
// and the name of a switch alone means on. All are compared with the first rung.
func Ladder(text string) ([]Config, error) {
	var configs []Config
	for i, rung := range strings.Split(text, ";") {
		rung = strings.TrimSpace(rung)
		if rung == "" {
			continue
		}
		refuse := func(reason string) error {
			return errs.New("read ladder", fmt.Sprintf("%q", rung), reason, "write it as 'baseline; num_workers=4; +pin_memory'")
		}
		body, adds := strings.CutPrefix(rung, "+")
		c := Config{Before: -1, Name: rung}
		if adds {
			if len(configs) == 0 {
				return nil, refuse("there is no rung before it to add to")
			}
			c.Before = len(configs) - 1
			c.Settings = slices.Clone(configs[c.Before].Settings)
		} else if len(configs) > 0 {
			c.Before = 0
		}
		words := strings.Split(body, ",")
		if body == "baseline" {
			if i > 0 || adds {
				return nil, refuse("the baseline is the first rung")
			}
			words = nil
		}
		for _, word := range words {
			name, value, given := strings.Cut(strings.TrimSpace(word), "=")
			if name == "" || given && value == "" {
				return nil, refuse("a setting has no name or no value")
			}
			if !given {
				value = "on"
			}
			k := knob.Setting{Name: strings.ReplaceAll(name, "-", "_"), Value: value}
			c.Settings, c.Adds = set(c.Settings, k), set(c.Adds, k)
		}
		if c.Name = rung; adds {
			c.Name = "+" + strings.TrimSpace(body)
		}
		configs = append(configs, c)
	}
	if len(configs) < 2 {
		return nil, errs.New("read ladder", fmt.Sprintf("%q", text), "it has fewer than two rungs", "write it as 'baseline; num_workers=4; +pin_memory'")
	}
	return configs, nil
}

// Check asks of each configuration whether it can be run here. check says why it cannot, or
// else what of it has no effect. The rungs above a refused rung do without what it adds.
// Check fails when no configuration is left.
func (p *Plan) Check(check func(all []knob.Setting) (refused string, idle []string)) error {
	left := 0
	for i := range p.Configs {
		c := &p.Configs[i]
		if p.Ladder && c.Before >= 0 {
			below := &p.Configs[p.standing(c.Before)]
			c.Settings = slices.Clone(below.Settings)
			for _, k := range c.Adds {
				c.Settings = set(c.Settings, k)
			}
		}
		if c.Refused, c.Idle = check(p.All(i)); c.Refused == "" {
			left++
		}
	}
	if left == 0 {
		c := &p.Configs[0]
		return errs.New("plan", "the sweep", "no configuration can be run here: "+c.Name+": "+c.Refused, "choose other values")
	}
	return nil
}

// standing returns rung i or, where it was refused, the nearest rung below it that was not.
func (p *Plan) standing(i int) int {
	for p.Configs[i].Refused != "" && p.Configs[i].Before >= 0 {
		i = p.Configs[i].Before
	}
	return i
}

// set adds a setting, or changes its value where it is there already.
func set(settings []knob.Setting, k knob.Setting) []knob.Setting {
	for i := range settings {
		if settings[i].Name == k.Name {
			settings[i].Value = k.Value
			return settings
		}
	}
	return append(settings, k)
}

// All returns the settings of a configuration, with the plan's.
func (p *Plan) All(i int) []knob.Setting {
	all := slices.Clone(p.Base)
	for _, k := range p.Configs[i].Settings {
		all = set(all, k)
	}
	return all
}

// length returns how many steps a run has; 0 where its length is given in epochs.
func (p *Plan) length() int {
	if p.Epochs > 0 {
		return 0
	}
	return p.Warmup + p.Steps
}

// extent says how long a run is.
func (p *Plan) extent() string {
	if p.Epochs > 0 {
		return units.Counted(p.Epochs, "epoch", "epochs")
	}
	return units.Counted(p.Warmup+p.Steps, "step", "steps")
}

// Run is one run to do.
type Run struct {
	Config int // index of the configuration
	Round  int // from 0
}

// Order returns all runs, in rounds of one run of each configuration. Every second round
// goes backwards, so that a steady drift of the host affects all configurations alike.
func (p *Plan) Order() []Run {
	var runs []Run
	for round := range p.Repeat {
		for j := range p.Configs {
			i := j
			if round%2 == 1 {
				i = len(p.Configs) - 1 - j
			}
			if p.Configs[i].Refused == "" {
				runs = append(runs, Run{i, round})
			}
		}
	}
	return runs
}

// file returns the name of a run's session, without its ending. It tells what was set, and
// only runs with the same settings share it.
func (p *Plan) file(r Run) string {
	key := title(p.All(r.Config)) + strings.Join(mask.Args(p.Command), " ")
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("=_.-", c):
			return c
		case c == ' ':
			return ','
		}
		return '_'
	}, title(p.Configs[r.Config].Settings))
	const most = 80
	return fmt.Sprintf("%s-%08x-%d", name[:min(len(name), most)], crc32.ChecksumIEEE([]byte(key)), r.Round+1)
}

// value returns the value of a setting of a configuration; empty where the default holds.
func (p *Plan) value(i int, name string) string { return knob.ValueOf(p.All(i), name) }

// job returns what a Runner has to do for a run whose session is in a file of that name.
func (p *Plan) job(r Run, session string) Job {
	j := Job{Settings: p.All(r.Config), Steps: p.length(), Epochs: p.Epochs, Session: session}
	named := Placeholders(p.Command)
	j.Settings = slices.DeleteFunc(j.Settings, func(k knob.Setting) bool { return slices.Contains(named, k.Name) })
	for _, word := range p.Command {
		if full := p.filled(word, r); full != "" || word == "" {
			j.Command = append(j.Command, full)
		}
	}
	return j
}

// RunName stands in a command for the name of the run, which no other run has.
const RunName = "run"

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// Placeholders returns the names that words have in braces, each once.
func Placeholders(words []string) (names []string) {
	for _, word := range words {
		for _, m := range placeholder.FindAllStringSubmatch(word, -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// filled returns a word of the command with the values of a run. Names that are no setting stay as they are.
func (p *Plan) filled(word string, r Run) string {
	all := p.All(r.Config)
	return placeholder.ReplaceAllStringFunc(word, func(m string) string {
		name := m[1 : len(m)-1]
		i := slices.IndexFunc(all, func(k knob.Setting) bool { return k.Name == name })
		switch {
		case i >= 0:
			return all[i].Value
		case name == RunName:
			return p.file(r)
		}
		return m
	})
}

// Names returns the settings that the configurations vary, in the order in which they first
// appear.
func (p *Plan) Names() (names []string) {
	for i := range p.Configs {
		for _, k := range p.Configs[i].Settings {
			if !slices.Contains(names, k.Name) {
				names = append(names, k.Name)
			}
		}
	}
	return names
}
