//go:build linux

package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/script"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
)

// TestUnwatched: if no loop was seen, the user is told why and what would show one.
func TestUnwatched(t *testing.T) {
	b, err := bridge.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	folder := ""
	for _, s := range b.Environ(nil) {
		if dir, ok := strings.CutPrefix(s, bridge.Variable+"="); ok {
			folder = dir
		}
	}
	s, err := script.Start([]string{"sleep", "1000"}, os.Environ(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &torchRun{bridge: b, script: s}
	for _, c := range []struct{ file, says string }{
		{"", "PyTorch was imported by no process that could be watched (one run with -I"},
		{"imported", "took no batch from torch.utils.data.DataLoader"},
		{"messages-1", "no batch was loaded for training"},
	} {
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(folder, c.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := r.unwatched()
		if !strings.Contains(got, c.says) || strings.Contains(got, "gpustall.watch(") != (c.file != "") {
			t.Errorf("with %q it says %q, not %q", c.file, got, c.says)
		}
	}
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done
	if got := r.unwatched(); strings.Contains(got, "gpustall.watch(") {
		t.Errorf("of a script that failed it says %q", got)
	}
	for _, file := range []string{"imported", "messages-1"} {
		if err := os.Remove(filepath.Join(folder, file)); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.unwatched(); !strings.Contains(got, "failed before any process of it imported PyTorch") {
		t.Errorf("of a script that is not there it says %q", got)
	}
}

// TestOpenLog: existing files stay, each run has a log of its own, and the log is appended to.
func TestOpenLog(t *testing.T) {
	b, err := bridge.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	there := filepath.Join(dir, "train.log")
	if err := os.WriteFile(there, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]string{"train.gpustall": "train-2.log", "x.log": "x.log.log"} {
		run := &torchRun{bridge: b, args: []string{"python", "train.py"}, options: &options{session: filepath.Join(dir, session)}}
		f, err := run.openLog()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if filepath.Base(f.Name()) != want {
			t.Errorf("%s: the log is %s, want %s", session, f.Name(), want)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestScriptName(t *testing.T) {
	for line, want := range map[string]string{
		"python -u train.py --lr 1": "train", "/usr/bin/python3 a/b/fit.py": "fit", "python -m my.train": "my.train",
		"torchrun --nproc-per-node 2 run.py": "run", "accelerate launch x": "accelerate", "python -m torch.distributed.run run.py": "run",
	} {
		if got := scriptName(strings.Fields(line)); got != want {
			t.Errorf("%s is called %q, want %q", line, got, want)
		}
	}
}

// TestStepsWith: steps count from when the settings that were asked for are in force, whatever the script changes.
func TestStepsWith(t *testing.T) {
	workers := func(n string) []knob.Setting { return []knob.Setting{{Name: "num_workers", Value: n}} }
	s := &trace.Snapshot{Segments: []trace.Segment{
		{Knobs: workers("1")}, {Index: 1, FirstStep: 20, Knobs: workers("2")}, {Index: 2, FirstStep: 60, Knobs: workers("2"), ByScript: true},
	}}
	s.Meta.Specs = []knob.Spec{{Name: "num_workers", Type: "int", Max: 8}}
	s.Last.Index, s.Total.Steps = 99, 100
	for n, want := range map[string]int{"": 100, "2": 80, "1": 0} {
		var settings []knob.Setting
		if n != "" {
			settings = workers(n)
		}
		if got := stepsWith(s, settings); got != want {
			t.Errorf("%d steps with num_workers %q, want %d", got, n, want)
		}
	}
}

// TestSessionOfRank: ranks that get the same --session from their launcher each write a file of
// their own.
func TestSessionOfRank(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no launcher":                    {nil, "a/x.gpustall"},
		"one process a rank":             {map[string]string{"RANK": "3", "WORLD_SIZE": "4"}, "a/x-rank3.gpustall"},
		"a job of one rank":              {map[string]string{"RANK": "0", "WORLD_SIZE": "1"}, "a/x.gpustall"},
		"srun":                           {map[string]string{"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}, "a/x-rank5.gpustall"},
		"the batch script of Slurm":      {map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, "a/x.gpustall"},
		"srun of one launcher a machine": {map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, "a/x.gpustall"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{"RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"} {
				t.Setenv(v, c.env[v])
			}
			if got := sessionOfRank("a/x.gpustall"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := metricsOfRank(""); got != "" {
				t.Errorf("without --metrics they are written to %s", got)
			}
		})
	}
}
