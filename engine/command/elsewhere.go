package command

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
)

// elsewhere splits HOST:SESSION, where SESSION is latest when it is empty. ok is false for a name that
// means a session here.
func elsewhere(name string) (host, session string, ok bool) {
	host, session, ok = strings.Cut(name, ":")
	ok = ok && host != "" && host[0] != '-' && !strings.ContainsAny(host, "/ ") && !cli.Exists(name)
	return host, cmp.Or(session, latest), ok
}

// These are exit codes of ssh, or of the shell that it started.
const (
	sshFailed  = 255
	noGpustall = 127
)

// connectLimit is how many seconds ssh may take to reach the machine; else it is two minutes until it gives up.
const connectLimit = "15"

// viewElsewhere opens a session on another machine, by ssh and the gpustall there. Nothing listens
// on a port.
func viewElsewhere(ctx context.Context, host, session string, fs *pflag.FlagSet) error {
	words := []string{"gpustall", "view"}
	fs.Visit(func(f *pflag.Flag) { words = append(words, word("--"+f.Name+"="+f.Value.String())) })
	words = append(words, "--", word(session))
	args := []string{"-o", "ConnectTimeout=" + connectLimit, host, `exec "${SHELL:-sh}" -lc ` + word(strings.Join(words, " "))} // a login shell knows where programs are
	if drawable() {
		args = append([]string{"-t"}, args...)
	}
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	switch name := host + ":" + session; {
	case !errors.As(err, &exit):
		return errs.Wrap(err, "open session", name, "ssh must be installed here")
	case exit.ExitCode() == sshFailed:
		return errs.New("open session", name, "ssh could not reach "+host+", as it says above", "try ssh "+host)
	case exit.ExitCode() == noGpustall:
		return errs.New("open session", name, "there is no gpustall in the path of "+host, "install it there")
	case exit.ExitCode() == cli.ExitUsage:
		return cli.Coded(errs.New("open session", name, "the gpustall there does not know how, as it says above", "install this version there: gpustall --version tells which one it is"), cli.ExitUsage)
	default:
		return cli.Coded(errs.New("open session", name, "the gpustall there could not, as it says above", "gpustall sessions lists them there"), exit.ExitCode())
	}
}

// word returns a text as one word of a POSIX shell.
func word(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
