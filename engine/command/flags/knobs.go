// Package flags has the flags that several commands take, with their checks, and the help that
// lists them.
package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train"
)

// These are values of --autotune that the knob does not have. Both set the knob to on. With
// again a run forgets what earlier trials found. With known it uses that and tries nothing.
const (
	TuneAgain = "again"
	TuneKnown = "known"
)

// BatchAuto is the value of --batch-size with which a run takes the largest batch that fits.
const BatchAuto = "auto"

// CheckKnob refuses a value that a knob does not take in runs that are compared.
func CheckKnob(name, text string) error {
	if name == "batch_size" && text == BatchAuto {
		return errs.New("set", name+"="+text, "what is compared are runs of sizes that are known", "gpustall run --batch-size auto tells the largest that fits: give that")
	}
	probe := train.DefaultKnobs()
	return probe.Set(name, text)
}

// Knob is the flag of a knob: the name of the knob with dashes.
type Knob struct {
	row   *knob.Row[train.Knobs]
	text  string   // the value as typed, or the default
	set   bool     // the user gave it
	extra []string // values that only the flag has
	means string   // the knob's value for these
}

// Knobs are the flags of all knobs. Injected bottlenecks share one flag.
type Knobs struct {
	flags  []*Knob
	inject Inject
}

// Add adds a flag for each knob. auto says whether --batch-size takes BatchAuto.
func (ks *Knobs) Add(fs *pflag.FlagSet, auto bool) {
	defaults := train.DefaultKnobs()
	for i := range train.KnobTable {
		row := &train.KnobTable[i]
		if row.Group == knob.GroupInject {
			ks.inject.rows = append(ks.inject.rows, row)
			continue
		}
		f := &Knob{row: row, text: row.Value(&defaults)}
		help := row.Help
		if row.Name == "autotune" {
			f.extra, f.means = []string{TuneAgain, TuneKnown}, "on"
			help += "; again: try anew; known: try nothing, and take what was found before"
		}
		if row.Name == "batch_size" && auto {
			f.extra, f.means = []string{BatchAuto}, f.text
			help += "; auto: the largest that fits into memory"
		} else if row.Type == "enum" || f.extra != nil {
			help = knob.Choice(f.Words()) + ": " + help
		}
		if row.Flag.Note != "" {
			help += "; " + row.Flag.Note
		}
		ks.flags = append(ks.flags, f)
		flag := fs.VarPF(f, Name(row.Name), "", help)
		if row.Group == knob.GroupLoader {
			SetGroup(fs, flag.Name, GroupLoader)
		}
		switch {
		case row.Flag.Alone != "":
			flag.NoOptDefVal = row.Flag.Alone
			flag.Usage += "; alone it means " + row.Flag.Alone
		case f.Type() == switchType:
			flag.NoOptDefVal = "on"
		}
		if name := old[flag.Name]; name != "" {
			before := fs.VarPF(f, name, "", help)
			before.NoOptDefVal, before.Hidden = flag.NoOptDefVal, true
		}
	}
	fs.Var(&ks.inject, knob.GroupInject, "slow the loader on purpose ("+ks.inject.help()+"); may be repeated")
}

// Over returns base with the values of the flags that were given.
func (ks *Knobs) Over(base train.Knobs) (train.Knobs, error) {
	k := base
	for _, f := range ks.flags {
		if f.set {
			if err := k.Set(f.row.Name, f.value()); err != nil {
				return k, err
			}
		}
	}
	for _, i := range ks.inject.given {
		if err := k.Set(i.Name, i.Value); err != nil {
			return k, err
		}
	}
	return k, train.KnobTable.Check(k)
}

// Text returns the value of a knob's flag as typed, or "" if it was not given.
func (ks *Knobs) Text(name string) string {
	for _, f := range ks.flags {
		if f.row.Name == name && f.set {
			return f.text
		}
	}
	return ""
}

// OwnDefaults names the defaults of this device that differ from the usual ones and were not
// overruled.
func (ks *Knobs) OwnDefaults(info device.Info) string {
	var in []string
	for _, s := range train.Specs(info) {
		if s.DefaultHere != "" && s.NoEffect == "" && ks.Text(s.Name) == "" {
			in = append(in, s.Name+"="+s.DefaultHere)
		}
	}
	if len(in) == 0 {
		return ""
	}
	return "defaults on this device: " + strings.Join(in, ", ")
}

// TakeUp sets the knobs that were not given to those of an earlier run, whose checkpoint is at
// path.
func (ks *Knobs) TakeUp(knobs []knob.Setting, path string, given func(flag string) bool) error {
	var failed []error
	for _, f := range ks.flags {
		if v := knob.ValueOf(knobs, f.row.Name); v != "" && !f.set {
			failed = append(failed, f.Set(v))
		}
	}
	if !given(knob.GroupInject) {
		for _, k := range knobs {
			if what, ok := strings.CutPrefix(k.Name, knob.InjectPrefix); ok && k.Value != "" && k.Value != "off" {
				failed = append(failed, ks.inject.Set(what+"="+k.Value))
			}
		}
	}
	return errs.Wrap(errors.Join(failed...), "take the knobs up from", path, "give those knobs by flags")
}

// Given returns the settings that were given, injected bottlenecks first.
func (ks *Knobs) Given() []knob.Setting {
	out := slices.Clone(ks.inject.given)
	for _, f := range ks.flags {
		if f.set {
			out = append(out, knob.Setting{Name: f.row.Name, Value: f.text})
		}
	}
	return out
}

// Injected returns the injected bottlenecks that were given.
func (ks *Knobs) Injected() []knob.Setting { return ks.inject.given }

// Names returns the names of the flags.
func (ks *Knobs) Names() []string {
	names := []string{knob.GroupInject}
	for _, f := range ks.flags {
		names = append(names, Name(f.row.Name))
	}
	return names
}

// Name returns the flag of a knob or a setting.
func Name(setting string) string { return knob.FlagName(setting) }

// old are the former names of flags. They go on for one version, hidden.
var old = map[string]string{"activation-checkpointing": "checkpointing"}

// switchType is the name of a switch's value in the help.
const switchType = "on|off"

// KnobName returns the name of the knob.
func (f *Knob) KnobName() string { return f.row.Name }

func (f *Knob) String() string { return f.text }

// Type returns the name of the value in the help.
func (f *Knob) Type() string {
	switch {
	case f.extra != nil && f.row.Type == "bool":
		return "MODE"
	case f.row.Flag.Value != "":
		return f.row.Flag.Value
	case f.row.Type == "bool":
		return switchType
	case f.row.Type == "duration":
		return "TIME"
	}
	return "N"
}

// value returns the value for the knob.
func (f *Knob) value() string {
	if slices.Contains(f.extra, f.text) {
		return f.means
	}
	return f.text
}

// Check refuses a value that the flag does not take.
func (f *Knob) Check(text string) error {
	if slices.Contains(f.extra, text) {
		return nil
	}
	err := CheckKnob(f.row.Name, text)
	if err != nil && f.extra != nil && f.row.Type == "bool" {
		return errs.New("set", fmt.Sprintf("%s=%q", f.row.Name, text), "none of its values", "choose "+knob.Choice(f.Words()))
	}
	if e := errs.Explain(err); e.Hint != "" && f.extra != nil {
		return errs.New(e.Op, e.Object, e.Reason, e.Hint+", or "+knob.Choice(f.extra)).Because(err)
	}
	return err
}

// Set takes a value if the knob takes it.
func (f *Knob) Set(text string) error {
	if err := f.Check(text); err != nil {
		return err
	}
	f.text, f.set = text, true
	return nil
}

// Words returns the values that the shell completes.
func (f *Knob) Words() []string {
	words := f.row.Values
	if f.row.Type == "bool" {
		words = []string{"on", "off"}
	}
	return slices.Concat(words, f.extra)
}

// Inject is --inject: read=5ms sets the knob inject_read to 5ms. Commas separate several.
type Inject struct {
	rows  []*knob.Row[train.Knobs]
	given []knob.Setting
}

func (f *Inject) Type() string { return "WHAT=TIME" }

func (f *Inject) String() string {
	parts := make([]string, len(f.given))
	for i, k := range f.given {
		parts[i] = strings.TrimPrefix(k.Name, knob.InjectPrefix) + "=" + k.Value
	}
	return strings.Join(parts, ",")
}

// Set adds to what was given before. The value none removes all of it.
func (f *Inject) Set(text string) error {
	if text == "" || text == "none" {
		f.given = nil
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		what, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return errs.New("set", fmt.Sprintf("inject=%q", part), "no bottleneck and its time", fmt.Sprintf("write %s or none", strings.Join(f.examples(), ", ")))
		}
		name := knob.InjectPrefix + strings.TrimSpace(what)
		if !slices.ContainsFunc(f.rows, func(r *knob.Row[train.Knobs]) bool { return r.Name == name }) {
			return errs.New("set", fmt.Sprintf("inject=%q", part), fmt.Sprintf("there is no bottleneck %q", what), "choose "+knob.Choice(f.What("")))
		}
		probe := train.DefaultKnobs()
		if err := probe.Set(name, value); err != nil {
			return err
		}
		f.given = append(f.given, knob.Setting{Name: name, Value: value})
	}
	return nil
}

// What lists the bottlenecks that can be injected, each with suffix.
func (f *Inject) What(suffix string) []string {
	var out []string
	for _, r := range f.rows {
		out = append(out, strings.TrimPrefix(r.Name, knob.InjectPrefix)+suffix)
	}
	return out
}

// help says what each example does.
func (f *Inject) help() string {
	says := f.examples()
	for i, r := range f.rows {
		says[i] += ": " + strings.TrimPrefix(r.Help, "injected: ")
	}
	return strings.Join(says, "; ")
}

// examples returns an example for each bottleneck.
func (f *Inject) examples() []string {
	out := f.What("=")
	for i, r := range f.rows {
		out[i] += r.Flag.Example
	}
	return out
}
