package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace/store"
)

// TestFailures: for each mistake of a user, the sentence says the operation, the object, the
// reason and what to do, without repeating itself. With --json the last line says the same in
// four fields.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	data := tiny(t)
	many := filepath.Join(dir, "many") // samples whose activations need more than a T4 has
	if r := gpustall(t, "data", "make", "cifar10", many, "--samples", "6400"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	undecodable := filepath.Join(dir, "undecodable")
	if r := gpustall(t, "data", "make", "imagefolder", undecodable, "--samples", "20"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	files, _ := filepath.Glob(filepath.Join(undecodable, "*", "*", "*"))
	if len(files) == 0 {
		files, _ = filepath.Glob(filepath.Join(undecodable, "*", "*"))
	}
	write := func(path string, content []byte) string {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, f := range files {
		write(f, []byte("no image"))
	}
	short := filepath.Join(dir, "cifar-10-batches-bin")
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		write(filepath.Join(short, "data_batch_"+n+".bin"), make([]byte, 3073*2+100))
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	text := write(filepath.Join(dir, "text"+store.Ext), bytes.Repeat([]byte("not a session "), 1000))
	cpu := []string{"run", "--device", "cpu", "--model", "cnn"}

	for _, tt := range []struct {
		name, operation, object, hint string // the beginning of the object, and a part of the hint
		code                          int
		args                          []string
	}{
		{"no data", "open data", dir + "/nowhere", "check the path", 1, append(cpu, "--data", dir+"/nowhere")},
		{"data of no form", "open data", empty, "make one with gpustall data make", 1, append(cpu, "--data", empty)},
		{"truncated data", "read", short, "download or unpack it again", 1, append(cpu, "--data", short)},
		{"images that are none", "decode", undecodable, "", 1, append(cpu, "--data", undecodable)},
		{"no such GPU", "open device", "cuda", "--device cpu", 3, []string{"run", "--device", "cuda:7"}},
		{"a GPU of no number", "set", "--device cuda:x", "cuda:N", 2, []string{"run", "--device", "cuda:x"}},
		{"no such device", "open device", "tpu", "emu:", 3, []string{"run", "--device", "tpu"}},
		{"no such emulated device", "open device", "emu:b200", "h100", 3, []string{"run", "--device", "emu:b200"}},
		{"out of memory", "plan", "batch_size=6400 in fp32", "lower batch_size to ", 1,
			[]string{"run", "--device", "emu:t4", "--model", "resnet18", "--data", many, "--batch-size", "6400"}},
		{"a precision that the device lacks", "set", "precision=fp16", "choose fp32", 2, append(cpu, "--precision", "fp16")},
		{"a model beside a workload", "set", "--model cnn", "leave --model out", 2, []string{"run", "--device", "emu:cosmoflow-h100", "--model", "cnn"}},
		{"no batch size", "set", "batch_size=many", "choose 1 to 1048576, or auto", 2, append(cpu, "--data", data, "--batch-size", "many")},
		{"more in a batch than there is", "set", "batch_size=4096", "turn drop_last off", 2, append(cpu, "--data", data, "--drop-last", "--batch-size", "4096")},
		{"a session in no folder", "set", "--session " + dir + "/a/b", "make it", 2, append(cpu, "--session", dir+"/a/b")},
		{"a session below a file", "create session file", "/dev/null/x", "--session", 1, append(cpu, "--session", "/dev/null/x")},
		{"a session that exists", "set", "--session " + text, "name another one", 2, append(cpu, "--session", text)},
		{"a limit of no tune", "set", "--budget", "add --tune", 2, []string{"torch", "--budget", "3s", "--", "true"}},
		{"a scope of ranks that is none", "set", "--ranks far", "choose all or here", 2, []string{"torch", "--ranks", "far", "--", "true"}},
		{"a flag's value", "set", `--epochs "x"`, "give one", 2, []string{"run", "--epochs", "x"}},
		{"a number of too many digits", "set", `--seed "99999999999999999999"`, "give one", 2, []string{"run", "--seed", "99999999999999999999"}},
		{"a flag", "set", "--wrokers", "gpustall run --help", 2, []string{"run", "--wrokers", "2"}},
		{"a short flag", "set", "-w", "gpustall run --help", 2, []string{"run", "-w"}},
		{"a flag without its value", "set", "--epochs", "gpustall run --help", 2, []string{"run", "--epochs"}},
		{"a model", "set", `model="vgg"`, "choose cnn, resnet18", 2, []string{"run", "--model", "vgg"}},
		{"negative epochs", "set", "--epochs -1", "choose 0 (no limit) or more", 2, []string{"run", "--epochs", "-1"}},
		{"an interval", "set", "--interval 1e+300", "0.05 to 3600", 2, []string{"run", "--interval", "1e300"}},
		{"a learning rate", "set", "--lr NaN", "0 for the default", 2, []string{"run", "--lr", "NaN"}},
		{"workers out of range", "set", "num_workers=65", "choose 0 to 64", 2, []string{"run", "--num-workers", "65"}},
		{"workers of no number", "set", "num_workers=many", "choose 0 to 64", 2, []string{"run", "--num-workers", "many"}},
		{"a knob that needs another", "set", "prefetch_factor=4", "raise num_workers", 2, []string{"run", "--device", "cpu", "--prefetch-factor", "4"}},
		{"a value of the flag alone", "set", `autotune="maybe"`, "on, off, again or known", 2, []string{"run", "--autotune", "maybe"}},
		{"a bottleneck", "set", `inject="gpu=1ms"`, "read, cpu or straggler", 2, []string{"run", "--inject", "gpu=1ms"}},
		{"a switch's value behind a space", "read", `"off"`, "--pin-memory=off", 2, []string{"run", "--pin-memory", "off"}},
		{"a command", "find command", `"trian"`, "report, run, sessions", 2, []string{"trian"}},
		{"a shell", "complete for", `"tcsh"`, "bash, zsh, fish", 2, []string{"completion", "tcsh"}},
		{"no argument", "run", "gpustall report", "name a session", 2, []string{"report"}},
		{"a session that is none", "open session", text, "pass a file that a run wrote", 1, []string{"report", text}},
		{"a format", "set", `--format "pdf"`, "choose markdown", 2, []string{"report", text, "--format", "pdf"}},
		{"a table", "set", "--table ops", "leave the table out", 2, []string{"report", text, "--table", "ops"}},
		{"a folder that exists", "make data", data, "name a new folder", 2, []string{"data", "make", "cifar10", data}},
		{"too few samples", "set", "--samples 3", "10 or more", 2, []string{"data", "make", "cifar10", dir + "/new", "--samples", "3"}},
		{"data to inspect", "open data", dir + "/nowhere", "check the path", 1, []string{"data", "inspect", dir + "/nowhere"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f errs.Error
			var sentence string
			if tt.args[0] == "run" {
				f, sentence = failedRun(t, tt.code, tt.args[1:])
			} else {
				root := newRoot("test")
				root.SetArgs(tt.args)
				err := root.Execute()
				if code := cli.ExitCode(err); code != tt.code {
					t.Fatalf("exit code %d, want %d: %v", code, tt.code, err)
				}
				f, sentence = *cli.Explain(err), err.Error()
			}
			if f.Op != tt.operation || !strings.HasPrefix(f.Object, tt.object) || !strings.Contains(f.Hint, tt.hint) {
				t.Errorf("operation %q, object %q, hint %q; want %q, %q…, …%q…", f.Op, f.Object, f.Hint, tt.operation, tt.object, tt.hint)
			}
			for i, a := range []string{f.Op, f.Object, f.Reason, f.Hint} {
				if strings.Count(sentence, a) == 0 || a == "" {
					t.Errorf("the sentence does not hold %q", a)
				}
				for j, b := range []string{f.Op, f.Object, f.Reason, f.Hint} {
					if i != j && strings.HasPrefix(b, a) {
						t.Errorf("%q begins with %q", b, a)
					}
				}
			}
			if t.Failed() {
				t.Log(sentence)
			}
		})
	}
}

// failedRun returns what JSON and terminal say of a run that fails.
func failedRun(t *testing.T, code int, args []string) (f errs.Error, sentence string) {
	t.Helper()
	r := gpustall(t, append([]string{"run", "--json"}, args...)...)
	m := last(t, r.stdout)
	sentence, _ = m["error"].(string)
	if r.code != code || m["type"] != "summary" || m["status"] != "failed" || strings.Count(r.stdout, `"summary"`) != 1 {
		t.Errorf("exit code %d, want %d: %.2000s%s", r.code, code, r.stdout, r.stderr)
	}
	if sentence == "" || !strings.Contains(r.stderr, "gpustall: "+sentence+"\n") {
		t.Errorf("the terminal has %q, the JSON %q", r.stderr, sentence)
	}
	b, err := json.Marshal(m["failure"])
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f, sentence
}

// TestExplainAny: JSON explains any error, even one that is no errs.Error.
func TestExplainAny(t *testing.T) {
	f := *cli.Explain(errors.New("boom"))
	f.Err = nil
	if want := (errs.Error{Op: "run", Object: "gpustall", Reason: "boom", Hint: "run it again; gpustall doctor says what this machine has"}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
}
