// Package command is the command line. It opens data, device and session, and hands them to the
// engine, the screen or a report. It decides nothing about training or stalls.
package command

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/datacmd"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/command/sweepcmd"
	"dev.gpustall/engine/device/cuda"
)

// Main runs the command line and returns the exit code.
func Main(version string) int {
	root := newRoot(version)
	cmd, err := root.ExecuteC()
	code := cli.ExitCode(err)
	if err != nil && cli.AsksJSON(cmd.Name(), os.Args[1:]) && !errors.As(err, new(cli.Summarised)) {
		if jerr := cli.WriteFailure(os.Stdout, err); jerr != nil {
			_ = cli.Say(os.Stderr, "gpustall: %v\n", jerr)
		}
	}
	if err != nil && !errors.As(err, new(cli.SignalError)) && !errors.As(err, new(cli.DivergedError)) {
		_ = cli.Say(os.Stderr, "gpustall: %v\n%s", err, cli.Caret(err))
	}
	return code
}

func newRoot(version string) *cobra.Command {
	o := newOptions(version)
	root := &cobra.Command{
		Use:   "gpustall",
		Short: "See why the accelerator waits during training, and fix it live",
		Long: `gpustall shows why the device waits while a training runs, names the line of
code, and changes the loader live. Without a command it trains by itself and
opens the screen, where ? lists the keys.`,
		Example: `  gpustall torch -- python train.py                 # your PyTorch training
  gpustall --inject cpu=1ms --batch-size 32         # ours, slow on purpose
  gpustall report latest --format html -o run.html  # the last run as a page`,
		Version:       version + " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")",
		Args:          flags.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.endless = cmd.Flags().Changed("epochs")
			if err := o.takeUp(cmd.Flags().Changed); err != nil {
				return err
			}
			return runScreen(cmd.Context(), o)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return cli.Misuse(flags.ParseError(cmd, err)) })
	root.SetUsageFunc(flags.Usage)
	root.SetHelpFunc(flags.Help)
	o.addTraining(root.Flags())
	o.keep.add(root.Flags())
	o.addScreen(root.Flags())
	cobra.EnableCommandSorting = false // the help lists the most needed ones first
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	group("Your PyTorch training:", newTorch(version), newAttach(version), newView(version), newTry(), newReport(version), newCompare(), newSessions(), newImport(version), newDoctor(version), newMCP(version))
	group("gpustall's own training, loader and devices:", newRun(version), newTune(version), sweepcmd.New(version), newLab(version), datacmd.New())
	root.AddCommand(newMan(), newTryKernels())
	complete(root)
	strict(root)
	return root
}

// newTryKernels returns the command of the process in which another gpustall tries kernels. Users
// do not call it.
func newTryKernels() *cobra.Command {
	return &cobra.Command{
		Use: machine.TryCommand, Short: "Try kernels for another gpustall", Hidden: true, Args: flags.NoArgs,
		RunE: func(*cobra.Command, []string) error { return cuda.ServeTrials() },
	}
}

// strict refuses unknown shells and help topics. The commands of the parser would print their
// help and succeed.
func strict(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return cli.Misuse(errs.New("complete for", strconv.Quote(args[0]), "no shell of that name is known", "choose bash, zsh, fish or powershell"))
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = flags.NoArgs
			}
		case "help":
			c.Args = func(c *cobra.Command, args []string) error {
				if _, rest, err := c.Root().Find(args); err != nil || len(rest) > 0 {
					return flags.NoCommand(c.Root(), strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}
