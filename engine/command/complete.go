package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/experiment"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/sweepcmd"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/engine/train/nn"
)

// complete registers the words that the shell completes for flags and arguments.
func complete(cmd *cobra.Command) {
	words := map[string][]string{
		"model":  nn.Names(),
		"stem":   nn.Stems(),
		"theme":  themes,
		"table":  report.Tables,
		"format": reportFormats(),
		"knobs":  experiment.Tunable,
		"device": {"auto", "cpu", "cuda"},
	}
	for _, n := range emu.Names() {
		words["device"] = append(words["device"], "emu:"+n)
	}
	for _, c := range append(cmd.Commands(), cmd) {
		for name, w := range words {
			if c.Flags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		if c.Flags().Lookup(flags.TransformSetting) != nil {
			_ = c.RegisterFlagCompletionFunc(flags.TransformSetting, flags.CompleteTransform)
		}
		for _, f := range []string{"epochs", "steps", "seed", "lr", "fps", "interval", "budget", "warmup", "repeat", "ladder", "max-workers",
			"memory-budget", "checkpoint-every", flags.Name(flags.SizeSetting)} {
			if c.Flags().Lookup(f) != nil {
				_ = c.RegisterFlagCompletionFunc(f, cobra.NoFileCompletions)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch v := f.Value.(type) {
			case *flags.Knob:
				switch v.KnobName() {
				case "optimizer":
					_ = c.RegisterFlagCompletionFunc(f.Name, completeSettings(nn.OptimizerNames(), nn.OptimizerSettings))
					return
				case "schedule":
					_ = c.RegisterFlagCompletionFunc(f.Name, completeSettings(nn.ScheduleNames(), nn.ScheduleSettings))
					return
				}
				_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.Words(), cobra.ShellCompDirectiveNoFileComp))
			case *sweepcmd.ListFlag:
				_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.Words(), cobra.ShellCompDirectiveNoFileComp))
			case *flags.Inject:
				_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.What("="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
			}
		})
		switch c.Name() {
		case "report", "view":
			c.ValidArgsFunction = completeSession
		case "run", "tune", "sessions", "doctor", "sweep", "lab":
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}

// completeSettings completes a name and, after each comma, a setting of it that is not given yet.
func completeSettings(names []string, settings func(name string) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		at := strings.LastIndexByte(typed, ',')
		if at < 0 {
			return names, directive
		}
		given := strings.Split(typed, ",")
		var out []string
		for _, s := range settings(given[0]) {
			key, _, _ := strings.Cut(s, "=")
			if !slices.ContainsFunc(given[1:len(given)-1], func(g string) bool { return strings.HasPrefix(g, key+"=") }) {
				out = append(out, typed[:at+1]+key+"=")
			}
		}
		return out, directive
	}
}

// completeSession completes the sessions of the state directory, and files.
func completeSession(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []string{latest}
	if cli.CheckSessionHome("") != nil {
		return names, cobra.ShellCompDirectiveDefault
	}
	list, err := store.List(cli.SessionDir())
	if err == nil {
		for _, s := range list {
			names = append(names, baseName(s.Path))
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// newMan writes man pages. It is hidden, because only packagers use it.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages into a folder", Hidden: true,
		Args: flags.Exactly(1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "GPUSTALL", Section: "1"}, args[0])
			return errs.Wrap(err, "write the man pages to", args[0], "name a folder that can be written to")
		},
	}
}
