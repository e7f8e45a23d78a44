//go:build unix

package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/train/checkpoint"
	"dev.gpustall/engine/train/nn"
)

// TestKilledRunGoesOn: a run that was killed is continued from its last checkpoint, by the name
// of its session. It ends with the weights of a run that was not killed.
func TestKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	data, dir := tiny(t), t.TempDir()
	whole, again, kept := filepath.Join(dir, "whole.safetensors"), filepath.Join(dir, "again.safetensors"), filepath.Join(dir, "kept")
	train := []string{"run", "--device", "cpu", "--model", "cnn", "--data", data, "--batch-size", "32", "--epochs", "2", "--num-workers", "2"}
	if r := gpustall(t, append(train, "--save", whole)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	session := filepath.Join(dir, "killed.gpustall")
	cmd := exec.Command(binary, append(train, "--checkpoint", kept, "--checkpoint-every", "4", "--session", session, "--inject", "read=1ms")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if all, _ := checkpoint.List(kept, ""); len(all) > 1 || time.Now().After(end) {
			break
		}
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err == nil {
		t.Fatal("it came to its end before it was killed")
	}
	r := gpustall(t, "run", "--resume", session, "--inject", "none", "--save", again)
	if r.code != 0 || !strings.Contains(r.stderr, "goes on after step") {
		t.Fatal(r.stdout, r.stderr)
	}
	a, aerr := os.ReadFile(whole)
	b, berr := os.ReadFile(again)
	if aerr != nil || berr != nil || !bytes.Equal(a, b) {
		t.Errorf("the weights differ: %v %v", aerr, berr)
	}
	if all, _ := checkpoint.List(kept, ""); len(all) > 2*keptMost {
		t.Errorf("%d checkpoints are left", len(all))
	}
	r = gpustall(t, "run", "--resume", kept)
	if r.code != cli.ExitUsage || !strings.Contains(r.stderr, "--epochs 2: the run has come to its end: it has trained 2 epochs; raise it to train on") {
		t.Error(r.code, r.stderr)
	}
}

// TestChosenModel: a continued run trains the same model, with all flags that chose it.
func TestChosenModel(t *testing.T) {
	for _, f := range []flags.Model{{Name: "resnet34", Stem: "7x7", NoBatchNorm: true}, {}} {
		var again flags.Model
		again.Take(f.Chosen(&nn.Model{Name: "resnet34"}))
		f.Name = "resnet34" // the default, by its name
		if again != f {
			t.Errorf("%+v, want %+v", again, f)
		}
	}
}
