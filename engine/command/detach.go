//go:build linux

package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/command/cli"
)

// failsSoon is how long detach watches a run for a command that does not even start.
const failsSoon = time.Second

// detach starts this command once more, without --detach, as --plain and in a session of its own, so that
// it outlives the terminal. It says where the output goes and how to look.
func detach(o *options, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return errs.Wrap(err, "find", "this program", "run it by its full path")
	}
	dir, err := placeForSessions()
	if err != nil {
		return err
	}
	name := filepath.Join(dir, time.Now().UTC().Format("20060102-150405-")+scriptName(args)+"-detached")
	log, err := os.OpenFile(cli.UnusedName(name, ".log"), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return errs.File(err, "write the log", name+".log", "set XDG_STATE_HOME to a folder that can be written to")
	}
	defer log.Close()
	own := slices.Clone(os.Args[1 : len(os.Args)-len(args)])
	at := slices.Index(own, "--detach")
	if at < 0 { // given as --detach=true
		return cli.Refuse("--detach", "it takes no value", "write --detach alone")
	}
	own[at] = "--plain"
	cmd := exec.Command(self, append(own, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errs.Wrap(err, "start", self, "run it without --detach")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var exit *exec.ExitError
	if errors.As(endedSoon(ended, cmd.Process.Pid), &exit) {
		return cli.Coded(errs.New("run", args[0], fmt.Sprintf("it ended at once with exit code %d", exit.ExitCode()), "its output is in "+log.Name()), exit.ExitCode())
	}
	session := "latest"
	if o.session != "" {
		session = o.session
	}
	return cli.Say(os.Stdout, "detached as process %d; kill %d ends the training\noutput   %s\nscreen   gpustall view %s\n",
		cmd.Process.Pid, cmd.Process.Pid, log.Name(), session)
}

// endedSoon returns how a gpustall ended whose command ran for less than failsSoon, or nil. It waits for the command to
// start, for at most 20 times as long.
func endedSoon(ended <-chan error, pid int) error {
	const look = failsSoon / 20
	for left, looks := failsSoon, 0; left > 0 && looks < 20*20; looks++ {
		select {
		case err := <-ended:
			return err
		case <-time.After(look):
			if len(host.Family(pid)) > 1 {
				left -= look
			}
		}
	}
	return nil
}
