// Package knob describes settings that are read and written as text: by flags, by the screen's
// keys, in a session. A Row describes one setting completely, and a Table of rows does everything
// that is done with settings.
package knob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// Row is one setting of a K.
type Row[K any] struct {
	// What all readers need. NewTable fills in its Type from the field.
	Spec
	Default string // as text; empty for the zero value

	// Field is where the setting lies: a *int, *bool, *time.Duration or a Text.
	Field func(k *K) any
	// Unset is a word for an int's 0 where that means that nobody chose a value. 0 is
	// then no part of the range that messages name.
	Unset string
	// Shown is what List writes where that differs from what the field holds.
	Shown func(k K) string
	// Refuse says why the value does not go with the others, as an errs.Reason; nil where it does.
	// A row without the function allows any value.
	Refuse func(k K) error
	// Idle says why the value has no effect with the others as they are, and how it would have one.
	// It is empty where the value has an effect; so does a row without the function.
	Idle func(k K) string

	Flag Flag
}

// Flag is what a command line needs beyond the spec.
type Flag struct {
	Value   string // what the help calls the value; empty: by its type
	Alone   string // what the flag without a value means. It is on for a switch; for others an empty one is an error
	Note    string // what the help says in addition
	Example string // a value, for the help of a group's flag
}

// Table is the settings of a K in the order in which they are shown.
type Table[K any] []Row[K]

// NewTable completes a table and returns it. It panics when a row makes no sense, since tables are
// made of literals when the program starts.
func NewTable[K any](t Table[K]) Table[K] {
	seen := map[string]bool{}
	var k K
	for i := range t {
		r := &t[i]
		r.Type = typeOf(r.Field(&k), &r.Spec)
		if seen[r.Name] || r.Name == "" || r.Help == "" || r.Applied == "" || strings.HasPrefix(r.Name, InjectPrefix) != (r.Group == GroupInject) {
			panic(fmt.Sprintf("knob: the row of %q is not complete, or is there twice: %+v", r.Name, r.Spec))
		}
		seen[r.Name] = true
	}
	_ = t.Defaults()
	return t
}

// Within makes a table of the settings of an Outer from one of the settings of its Inner.
func Within[Outer, Inner any](t Table[Inner], at func(*Outer) *Inner) Table[Outer] {
	out := make(Table[Outer], len(t))
	for i, r := range t {
		out[i] = Row[Outer]{Spec: r.Spec, Default: r.Default, Unset: r.Unset, Flag: r.Flag,
			Field: func(k *Outer) any { return r.Field(at(k)) }}
		if r.Shown != nil {
			out[i].Shown = func(k Outer) string { return r.Shown(*at(&k)) }
		}
		if r.Refuse != nil {
			out[i].Refuse = func(k Outer) error { return r.Refuse(*at(&k)) }
		}
		if r.Idle != nil {
			out[i].Idle = func(k Outer) string { return r.Idle(*at(&k)) }
		}
	}
	return out
}

// Defaults returns the settings with the rows' defaults.
func (t Table[K]) Defaults() K {
	var k K
	for i := range t {
		if r := &t[i]; r.Default != "" {
			if err := r.set(&k, r.Default); err != nil {
				panic(fmt.Sprintf("knob: a default: %v", err))
			}
		}
	}
	return k
}

// Find returns the row of a name; nil when there is none.
func (t Table[K]) Find(name string) *Row[K] {
	for i := range t {
		if t[i].Name == name {
			return &t[i]
		}
	}
	return nil
}

// Set changes one setting by its name and value, as List writes them. It does not check whether the
// settings go together; Check does.
func (t Table[K]) Set(k *K, name, value string) error {
	r := t.Find(name)
	if r == nil {
		return errs.New("set", name, "there is no knob of that name", "take one that the help lists")
	}
	return r.set(k, value)
}

func (r *Row[K]) set(k *K, value string) error {
	field := r.Field(k)
	if n, ok := field.(*int); ok && r.Unset != "" && (value == r.Unset || value == "0") {
		*n = 0
		return nil
	}
	return r.read(field, value)
}

// read sets a field to a value, which may be the word for unset.
func (r *Row[K]) read(field any, value string) error {
	s := r.Spec
	if r.Unset != "" {
		s.Min = max(1, s.Min)
	}
	if err := read(&s, field, value); err != nil {
		return refuse(r.Name, value, err)
	}
	return nil
}

// Value returns the setting as text.
func (r *Row[K]) Value(k *K) string {
	if r.Shown != nil {
		return r.Shown(*k)
	}
	return format(r.Field(k))
}

// List returns all settings in the table's order.
func (t Table[K]) List(k K) []Setting {
	out := make([]Setting, len(t))
	for i := range t {
		out[i] = Setting{Name: t[i].Name, Value: t[i].Value(&k)}
	}
	return out
}

// Ineffective says which settings have no effect, one sentence each. A setting has none where it is
// on and the device's spec says so, or where other settings prevent it. It leaves out defaults,
// because nobody chose them.
func (t Table[K]) Ineffective(k K, specs []Spec) []string {
	var out []string
	for i := range t {
		r := &t[i]
		value, why := r.Value(&k), specs[i].NoEffect
		if value == r.Default || why != "" && !On(value) {
			continue
		}
		if why == "" && r.Idle != nil {
			why = r.Idle(k)
		}
		if why != "" {
			out = append(out, fmt.Sprintf("%s=%s has no effect: %s", r.Name, value, why))
		}
	}
	return out
}

// Specs returns a copy of the rows' specs.
func (t Table[K]) Specs() []Spec {
	out := make([]Spec, len(t))
	for i := range t {
		out[i] = t[i].Spec
	}
	return out
}

// Check refuses values that are out of their range, and values that do not go together.
func (t Table[K]) Check(k K) error {
	for i := range t {
		r, scratch := &t[i], k
		if err := r.set(&scratch, format(r.Field(&k))); err != nil {
			return err
		}
	}
	for i := range t {
		if r := &t[i]; r.Refuse != nil {
			if err := r.Refuse(k); err != nil {
				return refuse(r.Name, r.Value(&k), err)
			}
		}
	}
	return nil
}

// Diff says in words what changed: "num_workers 2 -> 4, pin_memory off -> on". A setting that only
// one of the two has is "-" in the other.
func Diff(from, to []Setting) string {
	var words []string
	say := func(name, was, is string) {
		if was != is {
			words = append(words, fmt.Sprintf("%s %s -> %s", name, cmp.Or(was, "-"), cmp.Or(is, "-")))
		}
	}
	for _, k := range to {
		say(k.Name, ValueOf(from, k.Name), k.Value)
	}
	for _, k := range from {
		if !slices.ContainsFunc(to, func(o Setting) bool { return o.Name == k.Name }) {
			say(k.Name, k.Value, "")
		}
	}
	return strings.Join(words, ", ")
}
