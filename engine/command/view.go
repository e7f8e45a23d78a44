package command

import (
	"os"
	"os/exec"
	"strconv"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/metrics"
	"dev.gpustall/engine/command/remote"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/tui"
	"github.com/spf13/cobra"
)

func newView(version string) *cobra.Command {
	o := newOptions(version)
	cmd := &cobra.Command{
		Use:        "view SESSION",
		SuggestFor: []string{"open", "show", "watch"},
		Aliases:    []string{"replay"},
		Short:      "Open the screen from a session file, live while it is being written",
		Long: `Open the screen on a session: live while another gpustall writes it, else as a
replay. Live, the keys change the run where this machine and user have started
it, and q leaves the run alone. SESSION is a file, a name that gpustall sessions
lists, or latest. HOST:SESSION is one on another machine, which ssh and the
gpustall there open.

View a live session on the machine that writes it. The file's locks need
memory that both processes share, which NFS does not offer.`,
		Example: `  gpustall view latest
  gpustall view run.gpustall
  gpustall view gpu7:latest  # on another machine`,
		Args:    flags.Exactly(1, "one session"),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if host, session, ok := elsewhere(args[0]); ok {
				return viewElsewhere(cmd.Context(), host, session, cmd.Flags())
			}
			if args[0] == latest && !cli.Exists(latest) && drawable() {
				awaitSession()
			}
			path, err := findSession(args[0])
			if err != nil {
				return err
			}
			f, err := store.Follow(path)
			if err != nil {
				return err
			}
			defer f.Close()
			s, live := f.Session(), f.Running()
			if !drawable() {
				complain(os.Stderr, s)
				return report.Markdown(os.Stdout, all(s), report.Options{Session: path})
			}
			if o.metrics != "" {
				e, err := metrics.Start(o.metrics, f, func(error) {})
				if err != nil {
					return err
				}
				defer e.Stop()
			}
			restore := restorer()
			ctx, got, stop := cli.UntilSignal(cmd.Context(), restore)
			defer stop()
			defer cli.RestoreAtPanic(restore)
			meta := s.Meta()
			shown := tui.Options{
				Source: f, FPS: o.fps, ASCII: o.ascii, NoColor: o.noColor, Theme: o.theme, Replay: !live, Apart: true,
				Lines: meta.Watched(), Profile: meta.Profile, Ranks: len(s.Snapshot(0, 0).Ranks(0, s.Now())) > 1,
				Export: func() (string, error) { return exportReport(f, baseName(path), path) }, Rank: o.viewPeer,
			}
			if c, err := remote.Dial(path); live && err == nil { // else the knobs are read-only
				defer c.Close()
				shown.Control, shown.Experiments = c, c
			}
			if !live { // the next reading of a live session would undo the choice
				shown.Baseline = s.SetBaseline
			}
			err = show(ctx, restore, shown)
			return ended(nil, err, got())
		},
	}
	o.addMetrics(cmd.Flags())
	o.addScreen(cmd.Flags())
	return cmd
}

// viewPeer is the command that opens the session of another rank, here or on its machine.
func (o *options) viewPeer(p trace.Peer) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	session := p.Session
	if !cli.Exists(session) && p.Node != node() {
		session = p.Node + ":" + session
	}
	args := []string{"view", "--fps", strconv.Itoa(o.fps)}
	for flag, on := range map[string]bool{"--ascii": o.ascii, "--no-color": o.noColor} {
		if on {
			args = append(args, flag)
		}
	}
	if o.theme != "" {
		args = append(args, "--theme", o.theme)
	}
	cmd := exec.Command(self, append(args, "--", session)...)
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout // the terminal itself, not what this screen makes of it
	return cmd
}
