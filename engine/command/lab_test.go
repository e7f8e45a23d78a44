package command

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dev.gpustall/engine/command/cli"
)

// TestLab runs a lab, in too few steps to decide anything, and writes its report again.
func TestLab(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	r := gpustall(t, "lab", "--device", "emu:resnet50-h100", "--steps", "4", "--warmup", "1", "--repeat", "1", "--batch-size=4", "--inject", "cpu=1ms", "--out", dir)
	if r.code != 0 || !strings.Contains(r.stdout, "diagnosis: ") || !strings.Contains(r.stdout, "not possible here: capture=on has no effect") {
		t.Fatalf("exit %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	for _, name := range []string{
		"optimization_report.md", "optimization_results.csv", "optimized_training.py", "num_workers_comparison.png", "dataloader_optimization.png",
		"amp_comparison.png", "checkpointing_comparison.png", "compile_comparison.png", "optimization_dashboard.png",
	} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "optimization_report.md"))
	for _, want := range []string{"[emulated]", "[synthetic data]", "[injected]", "## Executive summary", "## Lessons"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the report lacks %s: %v", want, err)
		}
	}
	if again := gpustall(t, "lab", "--resume", "--out", dir); again.code != 0 || strings.Count(again.stdout, "(measured before)") != strings.Count(r.stdout, " samples/s  util ") {
		t.Errorf("again: exit %d: %s\n%s", again.code, again.stderr, again.stdout)
	}
	for _, args := range [][]string{{"lab", "--out", dir}, {"lab", "--resume", "--steps", "5", "--out", dir}, {"lab", "--resume", "--out", dir + "2"}, {"report", dir}} {
		if r := gpustall(t, args...); r.code != 2 || r.stdout != "" {
			t.Errorf("%q: exit %d: %s", args, r.code, r.stderr)
		}
	}
}

// TestLabRefuses: flags that make no sense are refused before anything starts.
func TestLabRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--steps", "0"}, {"--epochs", "0"}, {"--steps", "5", "--epochs", "2"}, {"--repeat", "0"}, {"--warmup", "-1"}, {"--model", "vgg"},
		{"--data", "/nowhere"}, {"--device", "emu:abacus"}, {"--device", "cpu", "--precision", "fp16"}, {"--out", ""}, {"--num-workers", "x"}, {"--batch-size", "auto"},
	} {
		dir := filepath.Join(t.TempDir(), "lab")
		r := gpustall(t, append([]string{"lab", "--out", dir}, args...)...)
		if r.code != 2 && r.code != 3 || r.stdout != "" {
			t.Errorf("%q: exit %d: %s", args, r.code, r.stderr)
		}
		if cli.Exists(dir) {
			t.Errorf("%q: the folder was made", args)
		}
	}
}

// TestLabOfCommand: a lab of a command ends as the command does, and refuses what is not for it before
// anything runs. make test-wheel has one of a training.
func TestLabOfCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("gpustall torch needs Linux")
	}
	dir := filepath.Join(t.TempDir(), "lab")
	r := gpustall(t, "lab", "--out", dir, "--", "sh", "-c", "echo out; exit 7")
	if r.code != 7 || r.stdout != "out\n" || !strings.Contains(r.stderr, "so there is nothing to report") {
		t.Errorf("exit %d: %s\n%s", r.code, r.stdout, r.stderr)
	}
	if r := gpustall(t, "lab", "--out", dir+"2", "--", "true"); r.code != 1 || !strings.Contains(r.stderr, "the training left no session") {
		t.Errorf("without a session: exit %d: %s", r.code, r.stderr)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--out", full, "--"}, {"--epochs", "2", "--"}, {"--resume", "--"}, {"--budget", "1ms", "--"}, {"--num-workers", "2", "--"}, nil,
	} {
		r := gpustall(t, append(append([]string{"lab"}, args...), "sh", "-c", "echo ran")...)
		if r.code != 2 || r.stdout != "" {
			t.Errorf("%q: exit %d: %s", args, r.code, r.stderr)
		}
	}
	if r := gpustall(t, "lab", "--budget", "1m", "--out", dir+"3"); r.code != 2 || cli.Exists(dir+"3") {
		t.Errorf("--budget without a command: exit %d: %s", r.code, r.stderr)
	}
}
