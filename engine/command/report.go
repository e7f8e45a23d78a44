package command

import (
	"fmt"
	"io"
	"os"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/lab"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/sweepcmd"
	"dev.gpustall/engine/report"
	"github.com/spf13/cobra"
)

func newReport(string) *cobra.Command {
	var format, table string
	var out cli.Output
	var rate float64
	cmd := &cobra.Command{
		Use:   "report SESSION|SWEEP|DIR|SESSION SESSION...",
		Short: "Write the report of a session, a sweep or a distributed training",
		Long: `Write the report of a session: what the device waited for, what was changed,
what it brought, what to keep. SESSION is a file, a name that gpustall
sessions lists, or latest. Of the folder of a sweep or a lab, it is made anew
from the sessions in it.

Of several sessions, or of a folder of them, it is the report of a distributed
training: which rank the others wait for, for how long, and why. Of a folder,
the sessions of the job that was written last are taken. Ranks need a gpustall
torch each, or one on each machine.`,
		Example: `  gpustall report latest
  gpustall report latest --format html -o run.html      # one page with pictures
  gpustall report latest --format folded -o run.folded  # stacks for a flame graph
  gpustall report DIR                                   # which rank is waited for`,
		Args: flags.AtLeast(1, "a session"),
		RunE: func(_ *cobra.Command, args []string) error {
			i := slices.Index(report.FormatNames(), format)
			if i < 0 {
				return cli.Refuse(fmt.Sprintf("--format %q", format), "there is no format of that name", "choose "+knob.Choice(report.FormatNames()))
			}
			if err := checkTable(format, table); err != nil {
				return err
			}
			if err := flags.CheckRate(rate); err != nil {
				return err
			}
			if format == "png" && out.Path == "" && cli.ColumnsOf(os.Stdout) > 0 {
				return cli.Refuse("--format png", "a terminal shows no picture", "name a file with --output")
			}
			if sweep.IsFolder(args[0]) {
				return sweepcmd.Report(sweep.Folder(args[0]), format, &out)
			}
			if lab.IsFolder(args[0]) {
				return cli.Misuse(errs.New("report", args[0], "it is the folder of a lab, whose report is "+lab.ReportFile,
					"gpustall lab --resume writes that anew; the folders in stages are sweeps"))
			}
			if info, err := os.Stat(args[0]); len(args) > 1 || err == nil && info.IsDir() {
				return reportFleet(args, format, rate, &out)
			}
			path, err := findSession(args[0])
			if err != nil {
				return err
			}
			s, err := openSession(path)
			if err != nil {
				return err
			}
			export := func(w io.Writer) error {
				snap := all(s)
				if rate > 0 {
					snap.Meta.GPURate = rate
				}
				return report.Formats[i].Write(w, snap, report.Options{Session: path, Table: table})
			}
			return out.Write("the report", export, path)
		},
	}
	cmd.Flags().StringVar(&format, "format", report.Formats[0].Name, knob.Choice(report.FormatNames())+" (chrome for chrome://tracing and Perfetto, folded for flame graph tools)")
	cmd.Flags().StringVar(&table, "table", "", "the table of --format csv: steps (the default), or ops, the time of each device op by segment")
	out.Add(cmd.Flags())
	flags.AddRate(cmd.Flags(), &rate)
	return cmd
}

// checkTable refuses a table that does not exist or that the format cannot write.
func checkTable(format, table string) error {
	switch {
	case table == "":
		return nil
	case !slices.Contains(report.Tables, table):
		return cli.Refuse(fmt.Sprintf("--table %q", table), "there is no table of that name", "choose "+knob.Choice(report.Tables))
	case format != "csv":
		return cli.Refuse("--table "+table, "only --format csv writes one table", "add it, or leave the table out: the markdown report has them all")
	}
	return nil
}
