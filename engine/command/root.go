// Package command composes the program: it reads the command line, opens data,
// device and session, and hands them to the engine, the screen or a report. It
// decides nothing about training or stalls.
package command

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
)

// Main runs the command line and returns the exit code.
func Main(version string) int {
	root := newRoot(version)
	cmd, err := root.ExecuteC()
	code := exitCode(err)
	if err != nil && asksJSON(cmd.Name(), os.Args[1:]) && !errors.As(err, new(summarised)) {
		if jerr := summariseFailure(os.Stdout, err); jerr != nil {
			_ = say(os.Stderr, "gpustall: %v\n", jerr)
		}
	}
	if err != nil && !errors.As(err, new(signalError)) && !errors.As(err, new(divergedError)) {
		_ = say(os.Stderr, "gpustall: %v\n%s", err, pointed(err))
	}
	return code
}

func newRoot(version string) *cobra.Command {
	o := newOptions(version)
	root := &cobra.Command{
		Use:   "gpustall",
		Short: "See why the accelerator waits during training, and fix it live",
		Long: `gpustall trains a model, feeds it with its own loader, charges every idle
microsecond of the device to a cause, and lets the loader be changed while it
runs. Without a command it opens the screen, where ? says what the keys do. Where
no knob helps, a story shows how a bottleneck is found, fixed and proved;
--inject read=5ms makes one right away.`,
		Version:       version,
		Args:          noArgs,
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
	root.SetVersionTemplate("gpustall {{.Version}} (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse(flagError(cmd, err)) })
	root.SetUsageFunc(usage)
	o.addTraining(root.Flags())
	o.keep.add(root.Flags())
	o.addScreen(root.Flags())
	root.AddCommand(
		newRun(version), newReplay(version), newReport(version), newImport(version), newTorch(version), newCompare(), newSweep(version), newTune(version), newLab(version), newSessions(),
		newData(), newDoctor(version), newMan(), newTryKernels(),
	)
	complete(root)
	strict(root)
	return root
}

// strict refuses a shell or a topic that there is none of, where the parser's own
// commands print their help and succeed.
func strict(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return misuse(errs.New("complete for", strconv.Quote(args[0]), "no shell of that name is known", "choose bash, zsh, fish or powershell"))
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = noArgs
			}
		case "help":
			c.Args = func(c *cobra.Command, args []string) error {
				if _, rest, err := c.Root().Find(args); err != nil || len(rest) > 0 {
					return noCommand(c.Root(), strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}
