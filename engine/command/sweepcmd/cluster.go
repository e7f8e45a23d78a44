package sweepcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
)

// attempts is how many arrays are submitted for the same runs.
const attempts = 3

// onCluster does the runs of a plan as tasks of sbatch arrays. Runs that are missing when an
// array has ended, for example because a node was lost, make the next array. It returns when all
// runs are done or after the last attempt. If ctx ends, it cancels the array.
func onCluster(ctx context.Context, p *sweep.Plan, f sweep.Folder, s sweep.Slurm, log io.Writer) error {
	if err := f.Save(p); err != nil {
		return err
	}
	for range attempts {
		runs, err := p.Missing(f)
		if err != nil || len(runs) == 0 {
			return err
		}
		script, err := p.Script(f, runs, s, runCommand)
		if err != nil {
			return err
		}
		_ = cli.Say(log, "sbatch %s: %s\n", script, units.Counted(len(runs), "task", "tasks"))
		if err := submit(ctx, script); err != nil {
			return err
		}
	}
	runs, err := p.Missing(f)
	if err == nil && len(runs) > 0 {
		err = errs.New("sweep on Slurm", string(f), fmt.Sprintf("%s did not end well in %d arrays", units.Counted(len(runs), "run", "runs"), attempts),
			"see slurm-*.out in the folder; the same command goes on")
	}
	return err
}

// writeScript writes the batch script, which somebody else submits.
func writeScript(p *sweep.Plan, f sweep.Folder, s sweep.Slurm, out io.Writer) error {
	if err := f.Save(p); err != nil {
		return err
	}
	runs, err := p.Missing(f)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return cli.Say(out, "nothing is missing: gpustall report %s\n", f)
	}
	script, err := p.Script(f, runs, s, runCommand)
	if err != nil {
		return err
	}
	return cli.Say(out, "script   %s (%s)\nsubmit   sbatch --wait %s\nreport   gpustall report %s\n", script, units.Counted(len(runs), "task", "tasks"), script, f)
}

// submit submits a script to sbatch and waits for its tasks. A failing task is not an error;
// its run is then missing.
func submit(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "sbatch", "--wait", "--parsable", script)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childPatience
	err := cmd.Run()
	job, _, _ := strings.Cut(strings.TrimSpace(out.String()), ";")
	switch {
	case ctx.Err() != nil:
		if job != "" {
			_ = exec.Command("scancel", job).Run() // without a cluster there is nothing to cancel
		}
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errs.New("find", "sbatch", "there is no such program", "run where Slurm is, or write the script alone with --slurm-script").Because(err)
	case job == "":
		return errs.New("submit", script, strings.TrimSpace(complaints.String()+" "+fmt.Sprint(err)), "see what sbatch says of it")
	}
	return nil
}
