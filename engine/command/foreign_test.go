package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// evil is a name with control characters, as others may give.
const evil = "\x1b[2J\x1b]0;title\a\u009b31m\u202e\rhid\n"

// TestForeignNames: names that others chose (data set, session, model, device, note) are shown by
// each command and do not control the terminal.
func TestForeignNames(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	dir := filepath.Join(state, "gpustall", "sessions")
	long := strings.Repeat("A", 10_000)
	s := trace.NewSession(trace.Meta{
		ID: "id" + evil, Started: time.Unix(1, 0), Device: evil + long, Model: "model" + evil, Dataset: evil + long, Format: evil,
		Command: []string{evil}, Host: []knob.Setting{{Name: evil, Value: evil + long}},
	})
	s.Add(&trace.Drained{
		Now: 2, Notes: []trace.Note{{T: 1, Level: "warn", Text: evil + long}},
		Segments: []trace.Segment{{Reason: evil + long, Knobs: []knob.Setting{{Name: evil, Value: evil}}}},
	})
	name := "name" + strings.ReplaceAll(evil, "/", "")
	if err := store.Save(filepath.Join(dir, name+store.Ext), s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken"+name+store.Ext), []byte("not a session"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data"+name)
	for _, args := range [][]string{
		{"sessions"}, {"report", name}, {"report", name, "--format", "csv"}, {"report", name, "--format", "chrome"}, {"replay", name},
		{"report", "none" + name}, {"data", "make", "cifar10", data, "--samples", "640"}, {"data", "inspect", data}, {"data", "inspect", "none" + data},
		{"run", "--device", "cpu", "--data", data, "--steps", "2"}, {"run", "--device", "cpu", "--data", data, "--steps", "2", "--json"}, {"run", "--device", evil},
	} {
		r := gpustall(t, args...)
		for _, out := range []string{r.stdout, r.stderr} {
			if i := strings.IndexFunc(out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
				t.Errorf("%q: %q", args, out[max(0, i-60):min(len(out), i+40)])
			}
			if strings.Contains(out, long[:2000]) {
				t.Errorf("%q: an over-long name is not cut", args)
			}
			for _, l := range strings.Split(out, "\n") {
				if strings.HasPrefix(l, "hid") {
					t.Errorf("%q: a name breaks the line", args)
				}
			}
		}
		if r.stdout+r.stderr == "" {
			t.Errorf("%q prints nothing", args)
		}
	}
}
