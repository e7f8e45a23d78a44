package command

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/command/cli"
)

// TestSweep measures a sweep, continues it, reports on it and compares it.
func TestSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	args := []string{"sweep", "--device", "emu:resnet50-h100", "--num-workers", "0,2", "--steps", "8", "--warmup", "2", "--repeat", "2", "--batch-size=4", "--out", dir}
	r := gpustall(t, args...)
	if r.code != 0 || strings.Count(r.stdout, " samples/s  util ") != 4 || !strings.Contains(r.stdout, "| 2           |") {
		t.Fatalf("exit %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	f, err := os.Open(filepath.Join(dir, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][1] != "0" || rows[2][1] != "2" {
		t.Errorf("%v: %v", err, rows)
	}
	for _, name := range []string{"report.md", "report.html", "throughput.png", "stalls.png", "epochs.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := gpustall(t, args...); r.code != 0 || strings.Count(r.stdout, "(measured before)") != 4 {
		t.Errorf("again: exit %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	for _, format := range []string{"markdown", "html", "csv", "png"} {
		if r := gpustall(t, "report", dir, "--format", format); r.code != 0 || len(r.stdout) < 500 {
			t.Errorf("report as %s: exit %d: %s", format, r.code, r.stderr)
		}
	}
	if r := gpustall(t, "report", dir, "--format", "chrome"); r.code != 2 {
		t.Errorf("a timeline of a sweep: exit %d", r.code)
	}
	if r := gpustall(t, "compare", dir, dir, "--fail-if", "slower=5%"); r.code != 0 || !strings.Contains(r.stdout, "of 2 configurations") {
		t.Errorf("compare: exit %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
}

// TestSweepRefuses: flags that make no sense are refused before anything starts.
func TestSweepRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--knob", "num_workrs=1"}, {"--knob", "num_workers=999"}, {"--knob", "num_workers=1,,2"}, {"--knob", "num_workers"},
		{"--knob", "num_workers=1,1"}, {"--batch-size", "32,auto"}, {"--knob", "batch_size=auto"}, {"--num-workers", "1,2", "--knob", "num_workers=3"}, {"--num-workers", "1,x"},
		{"--ladder", "baseline; +foo"}, {"--ladder", "baseline"}, {"--ladder", "baseline; +pin_memory", "--num-workers", "1,2"},
		{"--steps", "0"}, {"--repeat", "0"}, {"--epochs", "-1"}, {"--init", "/nowhere"}, {"--warmup", "-1"}, {"--model", "vgg"}, {"--data", "/nowhere"}, {"--device", "emu:abacus"}, {"--out", ""},
		{"--knob", "lr=1", "--", "python"}, {"--epochs", "2", "--", "python"}, {"--model", "cnn", "--", "python"}, {"--knob", "num_workers=x", "--", "python"},
		{"--ladder", "baseline; n=2", "--", "python", "{m}"}, {"python"},
	} {
		dir := filepath.Join(t.TempDir(), "sweep")
		r := gpustall(t, append([]string{"sweep", "--out", dir}, args...)...)
		if r.code != 2 && r.code != 3 || r.stdout != "" {
			t.Errorf("%q: exit %d: %s", args, r.code, r.stderr)
		}
		if cli.Exists(dir) {
			t.Errorf("%q: the folder was made", args)
		}
	}
}

// TestSweepFails: settings that cannot be run say why, and the others are measured.
func TestSweepFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	r := gpustall(t, "sweep", "--device", "emu:resnet50-h100", "--knob", "num_workers=0,1", "--knob", "persistent_workers=off,on", "--batch-size=4", "--steps", "5", "--warmup", "1", "--out", dir)
	if r.code != 0 || !strings.Contains(r.stderr, "left out: num_workers=0 persistent_workers=on: ") || !strings.Contains(r.stdout, "not possible here") || strings.Count(r.stdout, " samples/s  util ") != 3 {
		t.Errorf("exit %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
}

// TestSweepLearns compares optimizers, one of them with a setting, by what they learn in an
// epoch.
func TestSweepLearns(t *testing.T) {
	dir := t.TempDir()
	data, out := filepath.Join(dir, "data"), filepath.Join(dir, "sweep")
	if r := gpustall(t, "data", "make", "cifar10", data, "--samples", "64"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	r := gpustall(t, "sweep", "--device", "cpu", "--model", "cnn", "--data", data, "--batch-size", "16", "--warmup", "1",
		"--optimizer", "sgd,adamw,lr=3e-3,weight_decay=0,adam", "--epochs", "2", "--out", out)
	if r.code != 0 || !strings.Contains(r.stdout, "| test top-1 |") || !strings.Contains(r.stdout, "| adamw,lr=3e-3,weight_decay=0 |      2 |") {
		t.Fatalf("exit %d: %s\n%s", r.code, r.stderr, r.stdout)
	}
	for _, name := range []string{"loss.png", "test-top1.png"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
