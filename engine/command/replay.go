package command

import (
	"os"

	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/tui"
	"github.com/spf13/cobra"
)

func newReplay(version string) *cobra.Command {
	o := newOptions(version)
	cmd := &cobra.Command{
		Use:     "replay SESSION",
		Short:   "Open the screen from a session file",
		Long:    "Open the screen from a session: a file, a name that gpustall sessions lists, or latest.",
		Args:    flags.Exactly(1, "one session"),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := findSession(args[0])
			if err != nil {
				return err
			}
			s, err := store.Open(path)
			if err != nil {
				return err
			}
			if !drawable() {
				complain(os.Stderr, s)
				return report.Markdown(os.Stdout, all(s), report.Options{Session: path})
			}
			restore := restorer()
			ctx, got, stop := cli.UntilSignal(cmd.Context(), restore)
			defer stop()
			defer cli.RestoreAtPanic(restore)
			meta := s.Meta()
			err = show(ctx, restore, tui.Options{
				Source: s, FPS: o.fps, ASCII: o.ascii, NoColor: o.noColor, Theme: o.theme, Replay: true,
				Baseline: s.SetBaseline, Lines: meta.Watched(), Ranks: len(s.Snapshot(0, 0).Ranks(0, s.Now())) > 1,
				Export: func() (string, error) { return exportReport(s, baseName(path), path) },
			})
			return ended(nil, err, got())
		},
	}
	o.addScreen(cmd.Flags())
	return cmd
}
