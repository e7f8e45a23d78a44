package knob_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dev.gpustall/engine/base/knob"
)

// lamp is what the tests set.
type lamp struct {
	watts  int
	lit    bool
	fade   time.Duration
	colour colour
	auto   int // 0: unset, 7 is in force
}

type colour uint8

var colours = []string{"white", "red"}

func (c *colour) String() string { return colours[*c] }

func (c *colour) UnmarshalText(text []byte) error {
	for i, name := range colours {
		if string(text) == name {
			*c = colour(i)
			return nil
		}
	}
	return errors.New("is no colour")
}

func spec(name string) knob.Spec {
	return knob.Spec{Name: name, Group: knob.GroupEngine, Applied: "at once", Help: "for the test"}
}

func bounded(name string, lo, hi int) knob.Spec {
	s := spec(name)
	s.Min, s.Max = lo, hi
	return s
}

func lamps() knob.Table[lamp] {
	enum := spec("colour")
	enum.Values = colours
	return knob.NewTable(knob.Table[lamp]{
		{Spec: bounded("watts", 1, 100), Default: "40", Field: func(l *lamp) any { return &l.watts },
			Refuse: func(l lamp) error {
				if l.watts > 60 && l.colour != 0 {
					return errors.New("the colour melts")
				}
				return nil
			}},
		{Spec: spec("lit"), Field: func(l *lamp) any { return &l.lit }},
		{Spec: bounded("fade", 0, 10_000), Field: func(l *lamp) any { return &l.fade },
			Idle: func(l lamp) string {
				if l.fade > 0 && !l.lit {
					return "it is dark"
				}
				return ""
			}},
		{Spec: enum, Field: func(l *lamp) any { return &l.colour }},
		{Spec: bounded("auto", 0, 9), Unset: "unset", Field: func(l *lamp) any { return &l.auto },
			Shown: func(l lamp) string { return map[bool]string{true: "7", false: "set"}[l.auto == 0] }},
	})
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        func(l *lamp)
		err         string
	}{
		{"watts", "7", func(l *lamp) { l.watts = 7 }, ""},
		{"watts", "0", nil, "set watts=0: out of range; choose 1 to 100"},
		{"watts", "99999999999999999999", nil, "set watts=99999999999999999999: out of range; choose 1 to 100"},
		{"watts", "much light", nil, `set watts="much light": not a whole number; choose 1 to 100`},
		{"lit", "on", func(l *lamp) { l.lit = true }, ""},
		{"lit", "T", func(l *lamp) { l.lit = true }, ""},
		{"lit", "", nil, `set lit="": neither on nor off; choose one of the two`},
		{"fade", "1.5s", func(l *lamp) { l.fade = 1500 * time.Millisecond }, ""},
		{"fade", "off", func(*lamp) {}, ""},
		{"fade", "11s", nil, "set fade=11s: out of range; choose 0 to 10s"},
		{"fade", "-1s", nil, "set fade=-1s: out of range; choose 0 to 10s"},
		{"colour", "red", func(l *lamp) { l.colour = 1 }, ""},
		{"colour", "green", nil, "set colour=green: is no colour"},
		{"auto", "3", func(l *lamp) { l.auto = 3 }, ""},
		{"auto", "unset", func(*lamp) {}, ""},
		{"auto", "10", nil, "set auto=10: out of range; choose 1 to 9"},
		{"size", "1", nil, "set size: there is no knob of that name; take one that the help lists"},
	} {
		got := lamp{watts: 40}
		want := got
		err := lamps().Set(&got, c.name, c.value)
		if c.want != nil {
			c.want(&want)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != want || text != c.err {
			t.Errorf("%s=%s: %+v, %q, want %+v, %q", c.name, c.value, got, text, want, c.err)
		}
	}
}

// TestWithin: what lies in a struct has the same rows outside of it.
func TestWithin(t *testing.T) {
	type room struct{ lamp lamp }
	rooms := knob.Within(lamps(), func(r *room) *lamp { return &r.lamp })
	r := rooms.Defaults()
	if r.lamp != (lamp{watts: 40}) {
		t.Errorf("the defaults are %+v", r)
	}
	for _, k := range []knob.Setting{{Name: "watts", Value: "80"}, {Name: "colour", Value: "red"}, {Name: "fade", Value: "2s"}} {
		if err := rooms.Set(&r, k.Name, k.Value); err != nil {
			t.Fatal(err)
		}
	}
	want := []knob.Setting{{Name: "watts", Value: "80"}, {Name: "lit", Value: "off"}, {Name: "fade", Value: "2s"}, {Name: "colour", Value: "red"}, {Name: "auto", Value: "7"}}
	if diff := cmp.Diff(want, rooms.List(r)); diff != "" {
		t.Error(diff)
	}
	if err := rooms.Check(r); err == nil || err.Error() != "set watts=80: the colour melts" {
		t.Errorf("check: %v", err)
	}
	if got := rooms.Ineffective(r, rooms.Specs()); len(got) != 1 || got[0] != "fade=2s has no effect: it is dark" {
		t.Errorf("without effect: %q", got)
	}
	r.lamp.watts = 101
	if err := rooms.Check(r); err == nil || err.Error() != "set watts=101: out of range; choose 1 to 100" {
		t.Errorf("check: %v", err)
	}
	var types []string
	for _, s := range rooms.Specs() {
		types = append(types, s.Type)
	}
	if diff := cmp.Diff([]string{"int", "bool", "duration", "enum", "int"}, types); diff != "" {
		t.Error(diff)
	}
}

func TestDiff(t *testing.T) {
	a, b := []knob.Setting{{Name: "x", Value: "1"}, {Name: "y", Value: "off"}}, []knob.Setting{{Name: "x", Value: "2"}, {Name: "z", Value: "on"}}
	for _, tt := range []struct {
		from, to []knob.Setting
		want     string
	}{{a, a, ""}, {a, b, "x 1 -> 2, z - -> on, y off -> -"}, {b, nil, "x 2 -> -, z on -> -"}} {
		if got := knob.Diff(tt.from, tt.to); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestBadTables: a row that is not complete does not wait for its knob to be used.
func TestBadTables(t *testing.T) {
	good := func() knob.Row[lamp] {
		return knob.Row[lamp]{Spec: spec("lit"), Field: func(l *lamp) any { return &l.lit }}
	}
	for name, change := range map[string]func(r *knob.Row[lamp]){
		"no help":               func(r *knob.Row[lamp]) { r.Help = "" },
		"an impossible default": func(r *knob.Row[lamp]) { r.Default = "maybe" },
		"a field of no kind":    func(r *knob.Row[lamp]) { r.Field = func(l *lamp) any { return l } },
		"injects by group only": func(r *knob.Row[lamp]) { r.Group = knob.GroupInject },
		"injects by name only":  func(r *knob.Row[lamp]) { r.Name = "inject_dark" },
	} {
		bad := good()
		change(&bad)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the table was made", name)
				}
			}()
			knob.NewTable(knob.Table[lamp]{bad})
		}()
	}
	defer func() {
		if recover() == nil {
			t.Error("twice the same name: the table was made")
		}
	}()
	knob.NewTable(knob.Table[lamp]{good(), good()})
}
