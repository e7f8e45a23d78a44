package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
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
torch each, or one on each machine.

--format lab writes what a course's lab asks for into the folder of --output:
problem, baseline, strategy, validation, what was gained, with pictures and a
CSV. It takes a session that was changed while it ran, or two: before, after.`,
		Example: `  gpustall report latest
  gpustall report latest --format html -o run.html  # one page with pictures
  gpustall report DIR                               # which rank is waited for`,
		Args: flags.AtLeast(1, "a session"),
		RunE: func(_ *cobra.Command, args []string) error {
			i := slices.Index(report.FormatNames(), format)
			if i < 0 && format != labFormat {
				return cli.Refuse(fmt.Sprintf("--format %q", format), "there is no format of that name", "choose "+knob.Choice(reportFormats()))
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
			if format == labFormat {
				return reportLab(args, &out)
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
	cmd.Flags().StringVar(&format, "format", report.Formats[0].Name, knob.Choice(reportFormats())+" (chrome for chrome://tracing and Perfetto, folded for flame graph tools, lab for a folder)")
	cmd.Flags().StringVar(&table, "table", "", "the table of --format csv: steps (the default), or ops, the time of each device op by segment")
	out.Add(cmd.Flags())
	flags.AddRate(cmd.Flags(), &rate)
	return cmd
}

// labFormat is the format that writes a folder.
const labFormat = "lab"

// reportFormats returns the values of --format.
func reportFormats() []string { return append(report.FormatNames(), labFormat) }

// reportLab writes the lab of a session, or of the sessions before and after, into a folder.
func reportLab(args []string, out *cli.Output) error {
	if out.Path == "" {
		return cli.Refuse("--format "+labFormat, "it writes a folder", "name one with --output")
	}
	if len(args) > 2 {
		return cli.Misuse(errs.New("report", args[2], "a lab is of one session, or of two", "name those before and after"))
	}
	var paths []string
	for _, name := range args {
		path, err := findSession(name)
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	if err := writeLab(paths, out.Path, "name another folder with --output"); err != nil {
		return err
	}
	return cli.Say(os.Stdout, "%-*s%s\n", cli.LabelWidth, "lab", filepath.Join(out.Path, report.LabReport))
}

// writeLab writes the lab of one session or two into a folder; or names another place for it.
func writeLab(sessions []string, folder, or string) error {
	const op = "write the lab to"
	var sides []report.Side
	for _, path := range sessions {
		s, err := openSession(path)
		if err != nil {
			return err
		}
		sides = append(sides, report.Side{Session: path, Snapshot: all(s)})
	}
	l, err := report.NewLab(sides...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return errs.Wrap(err, op, folder, or)
	}
	err = l.Write(func(name string, content func(io.Writer) error) error {
		return cli.ReplaceFile(filepath.Join(folder, name), content)
	})
	return errs.Wrap(err, op, folder, cli.FileHint(err, or))
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
