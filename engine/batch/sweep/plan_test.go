package sweep

import (
	"os"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
)

func TestGrid(t *testing.T) {
	got := Grid([]Axis{{"num_workers", []string{"0", "2"}}, {"precision", []string{"fp32", "bf16"}}})
	var names []string
	for _, c := range got {
		names = append(names, c.Name)
	}
	want := []string{"num_workers=0 precision=fp32", "num_workers=0 precision=bf16", "num_workers=2 precision=fp32", "num_workers=2 precision=bf16"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if one := Grid(nil); len(one) != 1 || one[0].Name != "baseline" {
		t.Errorf("without axes: %+v", one)
	}
}

func TestLadder(t *testing.T) {
	got, err := Ladder("baseline; num_workers=4; +pin_memory; +precision=bf16, prefetch-factor=4; num_workers=2")
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name, settings string
		before         int
	}{
		{"baseline", "baseline", -1},
		{"num_workers=4", "num_workers=4", 0},
		{"+pin_memory", "num_workers=4 pin_memory=on", 1},
		{"+precision=bf16, prefetch-factor=4", "num_workers=4 pin_memory=on precision=bf16 prefetch_factor=4", 2},
		{"num_workers=2", "num_workers=2", 0},
	}
	if len(got) != len(want) {
		t.Fatalf("%d rungs", len(got))
	}
	for i, w := range want {
		if g := got[i]; g.Name != w.name || title(g.Settings) != w.settings || g.Before != w.before {
			t.Errorf("rung %d: %q sets %q on %d, want %+v", i, g.Name, title(g.Settings), g.Before, w)
		}
	}
	for _, bad := range []string{"", "baseline", "+pin_memory; baseline", "baseline; +", "baseline; num_workers=", "num_workers=2; baseline", "baseline; =4"} {
		if c, err := Ladder(bad); err == nil {
			t.Errorf("%q is a ladder: %+v", bad, c)
		}
	}
}

// TestRefusedRung: the rungs above a refused one do without what it adds.
func TestRefusedRung(t *testing.T) {
	configs, err := Ladder("baseline; num_workers=4; +precision=bf16; +pin_memory")
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{Configs: configs, Ladder: true}
	err = p.Check(func(all []knob.Setting) (string, []string) {
		if knob.ValueOf(all, "precision") == "bf16" {
			return "fp32 only", nil
		}
		return "", nil
	})
	if err != nil || p.Configs[2].Refused == "" || p.Configs[3].Refused != "" || title(p.Configs[3].Settings) != "num_workers=4 pin_memory=on" {
		t.Errorf("%v: %+v", err, p.Configs)
	}
	if err := p.Check(func([]knob.Setting) (string, []string) { return "nothing works", nil }); err == nil {
		t.Error("a plan of nothing")
	}
}

// TestOrder: every configuration runs once a round, and every second round backwards.
func TestOrder(t *testing.T) {
	p := &Plan{Configs: make([]Config, 3), Repeat: 3}
	p.Configs[1].Refused = "not here"
	var got []int
	for _, r := range p.Order() {
		got = append(got, r.Config)
	}
	if want := []int{0, 2, 2, 0, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestFiles: only runs with the same settings share a file.
func TestFiles(t *testing.T) {
	p := &Plan{Configs: Grid([]Axis{{"data", []string{"/a/b", "/a_b"}}, {"num_workers", []string{"0", "2"}}}), Repeat: 2}
	seen := map[string]bool{}
	for _, r := range p.Order() {
		name := p.file(r)
		if seen[name] {
			t.Errorf("%s twice", name)
		}
		seen[name] = true
		for _, c := range name {
			if c == '/' || c == ' ' {
				t.Errorf("%q is no name of a file", name)
			}
		}
	}
	other := *p
	other.Base = []knob.Setting{{Name: "batch_size", Value: "32"}}
	if p.file(Run{0, 0}) == other.file(Run{0, 0}) {
		t.Error("other settings, the same file")
	}
}

// TestCommand: settings that a command has placeholders for go into it, the others are set live, and its
// secrets are in no file.
func TestCommand(t *testing.T) {
	command := []string{"python", "train.py", "-j{n}", "{flag}", "", "{epoch}", "{run}", "--api-key=k3y"}
	p := &Plan{Command: command, Configs: Grid([]Axis{{"n", []string{"2"}}, {"flag", []string{"", "--pin"}}, {"in_order", []string{"off"}}}), Steps: 5, Repeat: 1}
	for i, flag := range [][]string{nil, {"--pin"}} {
		r := Run{Config: i}
		j := p.job(r, "s")
		want := slices.Concat([]string{"python", "train.py", "-j2"}, flag, []string{"", "{epoch}", p.file(r), "--api-key=k3y"})
		if !slices.Equal(j.Command, want) || !slices.Equal(j.Settings, []knob.Setting{{Name: "in_order", Value: "off"}}) {
			t.Errorf("%q with %v, want %q", j.Command, j.Settings, want)
		}
	}
	f := Folder(t.TempDir())
	if err := f.Save(p); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(f.Path(planFile))
	saved, err := f.Plan()
	if err != nil || strings.Contains(string(text), "k3y") || f.Session(saved, Run{}) != f.Session(p, Run{}) {
		t.Errorf("%v: %s", err, text)
	}
}
