package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplain(t *testing.T) {
	const lists = "gpustall run --help lists the flags and what they take"
	for _, tt := range []struct {
		err  error
		want failure
	}{
		{during("open data", "/x", "check it", errors.New("open data /x: no such folder: check the path, or make one: file does not exist")),
			failure{"open data", "/x", "no such folder", "check the path, or make one"}},
		{fmt.Errorf("run: %w", during("create session file", "/x", "name another", errors.New("create session file /x: permission denied"))),
			failure{"create session file", "/x", "run: create session file /x: permission denied", "name another"}},
		{during("train", "cnn", "again", errors.New("plan a step (lower batch_size): no room; lower batch_size")),
			failure{"train", "cnn", "plan a step (lower batch_size): no room", "lower batch_size"}},
		{usageError{errors.New(`--model "vgg": the models are cnn and resnet18`)},
			failure{"read the flags", `--model "vgg"`, "the models are cnn and resnet18", lists}},
		{during("create session file", "x", "other", usageError{errors.New("--session x: the file exists; name another one")}),
			failure{"read the flags", "--session x", "the file exists", "name another one"}},
		{usageError{errors.New("unknown flag: --wrokers")}, failure{"read the flags", "gpustall run", "unknown flag: --wrokers", lists}},
		{errors.New("make a: mkdir b: choose a folder; or name one"), failure{"run", "gpustall", "make a: mkdir b", "choose a folder; or name one"}},
		{errors.New("make"), failure{"run", "gpustall", "make", "run it again; gpustall doctor says what this machine has"}},
	} {
		if d := cmp.Diff(tt.want, explain(tt.err)); d != "" {
			t.Errorf("%v (-want +got):\n%s", tt.err, d)
		}
	}
	if during("x", "y", "z", nil) != nil {
		t.Error("no error is one")
	}
}

// A run that fails, before training or in it, ends its JSON with one object that
// says what was done, with what, why it failed and what to do.
func TestFailureJSON(t *testing.T) {
	dir := t.TempDir()
	data := tiny(t)
	many := filepath.Join(dir, "many") // samples whose activations need more than a T4 has
	if r := gpustall(t, "data", "make", "cifar10", many, "--samples", "6400"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	broken := filepath.Join(dir, "broken")
	if r := gpustall(t, "data", "make", "imagefolder", broken, "--samples", "20"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	files, _ := filepath.Glob(filepath.Join(broken, "*", "*", "*"))
	if len(files) == 0 {
		files, _ = filepath.Glob(filepath.Join(broken, "*", "*"))
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("no image"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, operation, object, mend string
		code                          int
		args                          []string
	}{
		{"no data", "open data", dir + "/nowhere", "check the path", 1, []string{"--data", dir + "/nowhere"}},
		{"no device", "open device", "cuda:7", "", 3, []string{"--device", "cuda:7"}},
		{"out of memory", "prepare the training", "resnet18 on emulated", "lower batch_size", 1,
			[]string{"--device", "emu:t4", "--model", "resnet18", "--data", many, "--batch-size", "6400"}},
		{"no folder for the session", "create session file", "/dev/null/x", "", 1, []string{"--data", data, "--session", "/dev/null/x"}},
		{"a flag's value", "read the flags", `--epochs "x"`, "", 2, []string{"--epochs", "x"}},
		{"a flag", "read the flags", "gpustall run", "--help", 2, []string{"--wrokers", "2"}},
		{"a choice", "read the flags", `--model "vgg"`, "", 2, []string{"--model", "vgg"}},
		{"while training", "train", "cnn on cpu", "", 1, []string{"--device", "cpu", "--model", "cnn", "--data", broken}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := gpustall(t, append([]string{"run", "--json"}, tt.args...)...)
			if r.code != tt.code {
				t.Errorf("exit code %d, want %d", r.code, tt.code)
			}
			m := last(t, r.stdout)
			if m["type"] != "summary" || m["status"] != "failed" || m["error"] == nil {
				t.Errorf("type %v, status %v, error %v", m["type"], m["status"], m["error"])
			}
			f, _ := m["failure"].(map[string]any)
			text := func(key string) string { s, _ := f[key].(string); return s }
			if text("operation") != tt.operation || !strings.HasPrefix(text("object"), tt.object) || !strings.Contains(text("mend"), tt.mend) ||
				text("reason") == "" || text("mend") == "" {
				t.Errorf("failure %v", f)
			}
			if strings.Count(r.stdout, `"summary"`) != 1 {
				t.Errorf("not one summary: %s", r.stdout)
			}
			if t.Failed() {
				t.Logf("%.2000s%s", r.stdout, r.stderr)
			}
		})
	}
}
