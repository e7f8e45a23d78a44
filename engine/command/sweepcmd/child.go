package sweepcmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
)

// childPatience is how long a child that was told to end may take.
const childPatience = 15 * time.Second

// Run does a run of a sweep in a process of its own: gpustall run. Nothing that a run
// leaves behind (its heap, page-locked memory, a device's context, the threads that
// Go has begun) is there in the next, a run that dies takes nothing else with it, and what
// is measured is what the command alone would measure.
func Run(ctx context.Context, j sweep.Job) error {
	words, err := runCommand(j)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childPatience
	complaints := &tail{}
	cmd.Stderr = complaints
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errs.Wrap(err, "start", words[0], "check that it can be run")
	}
	sum := follow(lines, j.Progress)
	err = cmd.Wait()
	switch {
	case err == nil, cmd.ProcessState.ExitCode() == cli.ExitDiverged: // its times are good
		return nil
	case sum.Failure != nil && sum.Failure.Reason != "":
		return sum.Failure
	case complaints.last() != "":
		return fmt.Errorf("%w: %s", err, complaints.last())
	}
	return err
}

// runCommand is what does a run.
func runCommand(j sweep.Job) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, errs.Wrap(err, "find", "gpustall's own file", "start it by its path")
	}
	extent := []string{"--evaluate=off", "--epochs", "0", "--steps", strconv.Itoa(j.Steps)}
	if j.Epochs > 0 {
		extent = []string{"--epochs", strconv.Itoa(j.Epochs)}
	}
	return slices.Concat([]string{self, "run", "--json", "--interval", "0.25", "--session", j.Session}, extent, flagsOf(j.Settings)), nil
}

// childLine is what a sweep reads of a line of a child.
type childLine struct {
	Type    string      `json:"type"`
	Step    int         `json:"step"`
	Failure *errs.Error `json:"failure"`
}

// follow reads a child's lines to the end and returns the last.
func follow(r io.Reader, progress func(step int)) (end childLine) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<20) // a summary with many segments is long
	for s.Scan() {
		var t childLine
		if json.Unmarshal(s.Bytes(), &t) != nil {
			continue
		}
		if end = t; t.Type == "progress" {
			progress(t.Step)
		}
	}
	_, _ = io.Copy(io.Discard, r) // so that the child is not held up by a line that is too long
	return end
}

// flagsOf are settings as a run's flags.
func flagsOf(settings []knob.Setting) (words []string) {
	for _, k := range settings {
		if what, inject := strings.CutPrefix(k.Name, knob.InjectPrefix); inject {
			words = append(words, "--inject="+what+"="+k.Value)
			continue
		}
		words = append(words, "--"+flags.Name(k.Name)+"="+k.Value)
	}
	return words
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-most):]
	return len(p), nil
}

// last is the last line.
func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.b), []byte("\n"))
	return string(lines[len(lines)-1])
}
