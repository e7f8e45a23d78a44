package command

import (
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// TestNobodyReads: with run | head -1 the training stops without a complaint, and its session is
// complete.
func TestNobodyReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unread"+store.Ext)
	cmd := exec.Command(binary, "run", "--device", "emu:cosmoflow-h100", "--steps", "1000000", "--interval", "0.05", "--session", file)
	var errs strings.Builder
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	kill := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer kill.Stop()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitSignal+int(syscall.SIGPIPE) || errs.Len() > 0 {
		t.Errorf("exit code %d, and it says %q", code, errs.String())
	}
	s, err := store.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot(0, 0).Outcome.Status; got != "stopped" {
		t.Errorf("the session's status is %q", got)
	}
}

// TestSessionElsewhere: the printed commands find a session wherever it is, and no report
// overwrites it.
func TestSessionElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my"+store.Ext)
	r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "2", "--session", file)
	if r.code != 0 || !strings.Contains(r.stdout, "gpustall report "+file) {
		t.Fatalf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "2", "--session", file); r.code != 2 {
		t.Errorf("exit %d when the session exists", r.code)
	}
	if r := gpustall(t, "report", file, "--output", filepath.Join(filepath.Dir(file), ".", "my"+store.Ext)); r.code != 2 {
		t.Errorf("a report over its own session: exit %d", r.code)
	}
	if r := gpustall(t, "compare", file, file, "--output", file); r.code != 2 || !strings.Contains(r.stderr, "it is the session itself") {
		t.Errorf("a comparison over one of its sessions: exit %d, %s", r.code, r.stderr)
	}
	if r := gpustall(t, "report", file); r.code != 0 {
		t.Errorf("the session is lost: %s", r.stderr)
	}
}

// TestSessionFolder: only the default folder of sessions is made; the name of another may be a
// typing error.
func TestSessionFolder(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	kept := filepath.Join(state, "gpustall", "sessions")
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "2", "--session", filepath.Join(kept, "my"+store.Ext)); r.code != 0 {
		t.Errorf("in the folder of sessions: exit %d: %s", r.code, r.stderr)
	}
	missing := filepath.Join(t.TempDir(), "nowhere")
	r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "2", "--session", filepath.Join(missing, "my"+store.Ext))
	if r.code != 2 || !strings.Contains(r.stderr, "there is no folder "+missing+"; make it") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	if _, err := os.Lstat(missing); err == nil {
		t.Error("the folder was made")
	}
}

// TestFullOutput: output that cannot be written is an error.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	cmd := exec.Command(binary, "run", "--device", "emu:cosmoflow-h100", "--steps", "2", "--json")
	cmd.Stdout = full
	var errs strings.Builder
	cmd.Stderr = &errs
	cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitRuntime || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("exit code %d, and it says %q", code, errs.String())
	}
}

// TestSummaryOfNothing: the summary of a run without steps is valid JSON.
func TestSummaryOfNothing(t *testing.T) {
	s := trace.NewSession(trace.Meta{Samples: 10})
	b, err := json.Marshal(summary.ProgressOf(s.Snapshot(0, 0), 2, 0))
	if err != nil || !strings.Contains(string(b), `"samples_per_s":null`) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestDiverged: a training that diverges goes on. Its exit code, JSON, lines and report say so.
func TestDiverged(t *testing.T) {
	data, file := tiny(t), filepath.Join(t.TempDir(), "x"+store.Ext)
	args := []string{"run", "--device", "cpu", "--data", data, "--batch-size", "32", "--steps", "6", "--session", file}
	r := gpustall(t, append(args, "--lr", "1e30", "--json")...)
	if r.code != cli.ExitDiverged || strings.Count(r.stderr, "diverged") != 1 {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	m := last(t, r.stdout)
	if step, ok := m["diverged"].(float64); !ok || step > 5 || m["status"] != "finished" || m["steps"] != 6.0 || m["loss"] != nil {
		t.Errorf("diverged %v, status %v, %v steps, loss %v", m["diverged"], m["status"], m["steps"], m["loss"])
	}
	if r := gpustall(t, "report", file); r.code != 0 || !strings.Contains(r.stdout, "Note: synthetic data, diverged.") {
		t.Errorf("report: exit %d, %.300s", r.code, r.stdout)
	}
	if r := gpustall(t, "report", file, "--format", "csv"); !strings.Contains(r.stdout, ",NaN,") {
		t.Errorf("the loss is missing in the CSV: %.600s", r.stdout)
	}
	os.Remove(file)
	if r := gpustall(t, append(args, "--lr", "1e30")...); r.code != cli.ExitDiverged || !strings.Contains(r.stdout, "\ndiverged ") || !strings.Contains(r.stdout, "loss NaN") {
		t.Errorf("exit %d: %s", r.code, r.stdout)
	}
	os.Remove(file)
	if r := gpustall(t, append(args, "--json")...); r.code != 0 || last(t, r.stdout)["diverged"] != nil {
		t.Errorf("a sound run: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
}

// TestDamagedSession: all commands that read a session's file report a number that changed in it.
func TestDamagedSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x"+store.Ext)
	if r := gpustall(t, "run", "--device", "emu:cosmoflow-h100", "--steps", "12", "--session", file); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r := gpustall(t, "report", file); r.code != 0 || r.stderr != "" {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE steps SET busy = busy * 2 WHERE idx = 5`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"report", file}, {"replay", file}} {
		r := gpustall(t, args...)
		if r.code != 0 || !strings.Contains(r.stderr, "the session file is damaged: left out 1 of 12 steps that are not what was written, the first of them step 5:") ||
			!strings.Contains(r.stdout, "damaged file") || !strings.Contains(r.stdout, "left out 1 of 12 steps") {
			t.Errorf("%v: exit %d, %s\n%.500s", args, r.code, r.stderr, r.stdout)
		}
	}
	if r := gpustall(t, "report", file, "--format", "csv"); r.code != 0 || !strings.Contains(r.stderr, "damaged") || strings.Contains(r.stdout, "\n5,") {
		t.Errorf("csv: exit %d, %s\n%.500s", r.code, r.stderr, r.stdout)
	}
}

func TestFlagMessages(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"run --epochs x", `--epochs "x": not a whole number`},
		{"run --interval 1e300", "0.05 to 3600"},
		{"run --lr NaN", "--lr NaN"},
		{"run --pin-memory off", "--pin-memory=off"},
		{"run --time-ops every", "--time-ops=every"},
		{"completion tcsh", "bash, zsh, fish"},
		{"completion bash zsh", "takes no arguments"},
		{"repotr", "did you mean gpustall report? choose"},
		{"trian", "did you mean gpustall run? choose"},
		{"data pcak", "did you mean gpustall data pack? choose"},
		{"run --pin-memry", "did you mean --pin-memory? gpustall"},
		{"torch --num-worker 3 -- true", "did you mean --set num_workers=...? gpustall"},
		{"help nothing", `find command "nothing": there is none of that name; choose attach, compare`},
		{"help run nothing", `find command "run nothing": there is none of that name; choose attach, compare`},
		{"run --gradient-accumulation 0 --data " + tiny(t), "choose 1 to 64"},
		{"run --drop-last --batch-size 4096 --data " + tiny(t), "leaves no batch"},
		{"data make cifar10 nowhere --samples 3", "--samples 3"},
	} {
		if r := gpustall(t, strings.Fields(tt.args)...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%s: exit %d, %s", tt.args, r.code, r.stderr)
		}
	}
}

func TestHelpAndCompletion(t *testing.T) {
	r := gpustall(t, "run", "--help")
	for _, want := range []string{flags.GroupLoader, "--pin-memory[=on|off] ", "--num-workers N ", "--device NAME ", "--json "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the help lacks %q", want)
		}
	}
	for _, l := range strings.Split(r.stdout, "\n") {
		if len(l) > 100 {
			t.Errorf("a line of %d columns: %s", len(l), l)
		}
	}
	for _, tt := range []struct{ args, says string }{
		{"run --device emu:", "emu:unet3d-h100"}, {"run --pin-memory=", "off"}, {"report l", "latest"},
		{"run --model r", "resnet18"}, {"report x --format c", "csv"},
	} {
		if r := gpustall(t, append([]string{"__complete"}, strings.Fields(tt.args)...)...); !strings.Contains(r.stdout, tt.says+"\n") {
			t.Errorf("%s completes to %s", tt.args, r.stdout)
		}
	}
}

// TestValueNames: the help names the value of each flag, and shows no Go type.
func TestValueNames(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			switch name, _ := pflag.UnquoteUsage(flags.Named(f)); name {
			case "string", "strings", "int", "ints", "uint", "float", "floats", "duration":
				t.Errorf("%s: --%s %s", c.CommandPath(), f.Name, name)
			}
		})
		for _, c := range c.Commands() {
			visit(c)
		}
	}
	visit(newRoot("test"))
}

// TestIdleKnob: a switch without effect on the device is reported on standard error, not in the
// JSON.
func TestIdleKnob(t *testing.T) {
	r := gpustall(t, "run", "--device", "cpu", "--data", tiny(t), "--steps", "1", "--pin-memory", "--json")
	if r.code != 0 || !strings.Contains(r.stderr, "pin_memory=on has no effect") || strings.Contains(r.stderr, "capture") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	last(t, r.stdout)
}
