package sweepcmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
)

// childPatience is how long a child may take to end after it was told to.
const childPatience = 15 * time.Second

// Run does one run of a sweep in a process of its own: gpustall run or, of a command of the user's, gpustall
// torch. So a run leaves nothing to the next one: no heap, page-locked memory, device context or threads of Go. If a run dies,
// only that run ends. A run measures what the command alone would measure.
func Run(ctx context.Context, j sweep.Job) error {
	words, err := runCommand(j)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childPatience
	if j.Command != nil { // which must not outlive its run
		cmd.WaitDelay = 0
		overdue := time.AfterFunc(math.MaxInt64, func() { killAll(cmd.Process.Pid) })
		defer overdue.Stop()
		cmd.Cancel = func() error {
			overdue.Reset(commandPatience)
			return cmd.Process.Signal(syscall.SIGTERM)
		}
	}
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
	case err == nil, cmd.ProcessState.ExitCode() == cli.ExitDiverged: // its times are valid
		return nil
	case sum.Failure != nil && sum.Failure.Reason != "":
		return outputOf(j, sum.Failure)
	case complaints.last() != "":
		return fmt.Errorf("%w: %s", err, complaints.last())
	}
	return err
}

// runCommand returns the command line of a run.
func runCommand(j sweep.Job) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, errs.Wrap(err, "find", "gpustall's own file", "start it by its path")
	}
	if j.Command != nil {
		words := []string{self, "torch", "--json", "--interval", "0.25", "--session", j.Session, "--steps", strconv.Itoa(j.Steps)}
		for _, k := range j.Settings {
			words = append(words, "--set", k.Name+"="+k.Value)
		}
		return slices.Concat(words, []string{"--"}, j.Command), nil
	}
	extent := []string{"--evaluate=off", "--epochs", "0", "--steps", strconv.Itoa(j.Steps)}
	if j.Epochs > 0 {
		extent = []string{"--epochs", strconv.Itoa(j.Epochs)}
	}
	return slices.Concat([]string{self, "run", "--json", "--interval", "0.25", "--session", j.Session}, extent, flagsOf(j.Settings)), nil
}

// commandPatience is how long a command of the user's may take to end: it may be saving a checkpoint.
const commandPatience = 60 * time.Second

// killAll kills a process and all its descendants.
func killAll(pid int) {
	for _, pid := range host.Family(pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// outputOf adds the last line that a command printed to the error with which it ended.
func outputOf(j sweep.Job, failed *errs.Error) error {
	log, err := os.Open(sweep.LogOf(j.Session))
	if err != nil || failed.Op == "set" { // the command itself did not fail
		return failed
	}
	defer log.Close()
	end := &tail{}
	if info, err := log.Stat(); err == nil {
		_, _ = io.Copy(end, io.NewSectionReader(log, max(0, info.Size()-tailSize), tailSize))
	}
	return errs.New("run", "the command", failed.Reason+": "+end.last(), "see "+log.Name()).Because(failed)
}

// childLine is what a sweep reads of a line of JSON from a child.
type childLine struct {
	Type    string      `json:"type"`
	Step    int         `json:"step"`
	Failure *errs.Error `json:"failure"`
}

// follow reads all lines of a child, tells progress, and returns the last line.
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
	_, _ = io.Copy(io.Discard, r) // after a line that is too long, the child must still be able to write
	return end
}

// flagsOf returns settings as flags of gpustall run.
func flagsOf(settings []knob.Setting) (words []string) {
	for _, k := range settings {
		if what, inject := strings.CutPrefix(k.Name, knob.InjectPrefix); inject {
			words = append(words, "--inject="+what+"="+k.Value)
			continue
		}
		words = append(words, "--"+flags.Name(k.Name)+"="+k.FlagValue())
	}
	return words
}

const tailSize = 4096

// tail is a writer that keeps the last tailSize bytes.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailSize):]
	return len(p), nil
}

// last returns the last line.
func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.b), []byte("\n"))
	return string(lines[len(lines)-1])
}
