package flags

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"dev.gpustall/engine/base/errs"
)

// The groups into which the help sorts flags.
const (
	GroupFirst   = "Flags:"
	GroupData    = "Data:"
	GroupModel   = "Model and optimizer:"
	GroupMore    = "Device and costs:"
	GroupSlurm   = "On a Slurm cluster:"
	GroupTune    = "With --tune:"
	GroupLoader  = "Loader knobs, as PyTorch's DataLoader has them; the screen changes them live:"
	GroupScreen  = "Screen:"
	GroupWeights = "Weights and checkpoints:"
)

const groupKey = "gpustall group"

// SetGroup puts a flag into a group of the help.
func SetGroup(fs *pflag.FlagSet, name, group string) {
	_ = fs.SetAnnotation(name, groupKey, []string{group}) // it fails only for an unknown flag
}

const settingsKey = "gpustall settings"

// SetSettings says which settings a flag takes, as users look for flags of these names.
func SetSettings(fs *pflag.FlagSet, name string, settings []string) {
	_ = fs.SetAnnotation(name, settingsKey, settings) // as SetGroup
}

// Usage prints the usage of a command, its subcommands and its flags, as wide as the terminal.
func Usage(cmd *cobra.Command) error {
	_, err := cmd.OutOrStderr().Write([]byte(usage(cmd, "")))
	return err
}

// Help prints what a command does in one sentence, its usage and examples, then all about it, then its
// subcommands and flags.
func Help(cmd *cobra.Command, _ []string) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s.\n\n%s", cmd.Short, usage(cmd, cmd.Long))
}

// usage is the usage of a command, with a text behind its examples.
func usage(cmd *cobra.Command, text string) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if text != "" {
		fmt.Fprintf(&b, "\n%s\n", text)
	}
	if cmd.HasAvailableSubCommands() {
		for _, g := range cmd.Groups() {
			writeCommands(&b, cmd, g.ID, g.Title)
		}
		rest := "Commands:"
		if len(cmd.Groups()) > 0 {
			rest = "Else:"
		}
		writeCommands(&b, cmd, "", rest)
	}
	only := ""
	if cmd == cmd.Root() {
		only = GroupScreen
	}
	writeFlags(&b, cmd.LocalFlags(), width(), only)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s [command] --help says more about a command.", cmd.CommandPath())
		if only != "" {
			b.WriteString(" All flags of a training: gpustall run --help.")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// writeCommands prints a group of the subcommands, in the order in which they were added.
func writeCommands(b *strings.Builder, cmd *cobra.Command, group, title string) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.GroupID == group {
			fmt.Fprintf(b, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
		}
	}
}

// grouped holds the groups of flags that several commands have and few users need. All other
// flags come first.
var grouped = map[string][]string{
	GroupData:  {TransformSetting, WhereSetting, "image-size", "drop-cache", "cache-dir", "cache-size"},
	GroupModel: {"stem", BatchNorm, "seed", "lr", "evaluate", "optimizer", "schedule", "gradient-accumulation", "activation-checkpointing", "dropout", "label-smoothing"},
	GroupMore:  {"capture", "autotune", "time-ops", "gpu-rate"},
	GroupSlurm: {"slurm", "slurm-script", "partition", "time", "gres", "cpus-per-task", "mem", "account", "qos", "constraint", "sbatch-arg"},
}

// InGroup returns the names of a group's flags, of those groups that several commands have.
func InGroup(group string) []string { return grouped[group] }

// groupOf returns the group of a flag in the help.
func groupOf(f *pflag.Flag) string {
	if a := f.Annotations[groupKey]; len(a) > 0 {
		return a[0]
	}
	for group, names := range grouped {
		if slices.Contains(names, f.Name) {
			return group
		}
	}
	return GroupFirst
}

// manyFlags is how many flags a command must have for its help to have groups.
const manyFlags = 15

// writeFlags prints the flags by group, the most needed first. It prints all groups or, if only
// is set, that group and the first one.
func writeFlags(b *strings.Builder, fs *pflag.FlagSet, width int, only string) {
	groups := []string{GroupFirst, GroupLoader, GroupData, GroupModel, GroupMore, GroupTune, GroupSlurm, GroupWeights, GroupScreen}
	sets := map[string]*pflag.FlagSet{}
	n := 0
	fs.VisitAll(func(*pflag.Flag) { n++ })
	fs.VisitAll(func(f *pflag.Flag) {
		g := groupOf(f)
		if n < manyFlags && g != GroupScreen && g != GroupTune {
			g = GroupFirst
		}
		if only != "" && g != only && g != GroupFirst {
			return
		}
		if sets[g] == nil {
			sets[g] = pflag.NewFlagSet(g, pflag.ContinueOnError)
			sets[g].SortFlags = false
		}
		shown := Named(f)
		shown.DefValue = strings.TrimSuffix(f.DefValue, "[]")
		sets[g].AddFlag(shown)
	})
	for _, g := range groups {
		if sets[g] != nil && sets[g].HasAvailableFlags() {
			// pflag writes the value of a switch after a space. Both ways are equally long.
			text := strings.ReplaceAll(sets[g].FlagUsagesWrapped(width), " "+switchType+"[=on]", "[="+switchType+"]   ")
			fmt.Fprintf(b, "\n%s\n%s", g, text)
		}
	}
}

// Named returns a copy of a flag for the help, whose value has a name.
func Named(f *pflag.Flag) *pflag.Flag {
	out := *f
	out.Value = namedValue{f.Value, f.Name}
	return &out
}

// namedValue names a flag's value by its meaning instead of its Go type.
type namedValue struct {
	pflag.Value
	flag string
}

var valueNames = map[string]string{
	"device": "NAME", "model": "NAME", "stem": "NAME", "theme": "NAME", "data": "PATH", TransformSetting: "STEPS",
	WhereSetting: "CONDITION", "session": "FILE", "output": "FILE",
	"format": "FORMAT", "table": "TABLE", "out": "DIR", "ladder": "RUNGS", "knob": "NAME=VALUES", "partition": "NAME", "time": "TIME", "gres": "DEVICES",
	"lr": "RATE", "interval": "SECONDS", "budget": "TIME", "knobs": "NAMES",
}

func (v namedValue) Type() string {
	if name := valueNames[v.flag]; name != "" {
		return name
	}
	switch t := v.Value.Type(); t {
	case "int", "int64":
		return "N"
	default:
		return t
	}
}

// width returns the width of the terminal, limited to what reads well.
func width() int {
	w, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 100
	}
	return max(60, min(w, 120))
}

// nearest returns the flag of a command whose name is most like the given one, or else whose last word is,
// or else the setting that a flag of it takes. It returns an empty text where nothing is similar.
func nearest(cmd *cobra.Command, name string) string {
	var flags, lasts, settings [][2]string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		flags = append(flags, [2]string{f.Name, "--" + f.Name})
		lasts = append(lasts, [2]string{f.Name[strings.LastIndexByte(f.Name, '-')+1:], "--" + f.Name})
		for _, k := range f.Annotations[settingsKey] {
			settings = append(settings, [2]string{strings.ReplaceAll(k, "_", "-"), "--" + f.Name + " " + k + "=..."})
		}
	})
	return cmp.Or(alike(name, flags), alike(name, lasts), alike(name, settings))
}

// alike returns what the word that is most like a name stands for, or an empty text where no word is similar. Each of words
// is a word and what it stands for.
func alike(name string, words [][2]string) string {
	names, stands := &cobra.Command{SuggestionsMinimumDistance: 2}, map[string]string{}
	for _, w := range words {
		if stands[w[0]] == "" {
			stands[w[0]] = w[1]
			names.AddCommand(&cobra.Command{Use: w[0], Run: func(*cobra.Command, []string) {}})
		}
	}
	if like := names.SuggestionsFor(name); len(like) > 0 {
		return stands[like[0]]
	}
	return ""
}

// ParseError says in our words what a flag takes.
func ParseError(cmd *cobra.Command, err error) error {
	lists := cmd.CommandPath() + " --help lists the flags and what they take"
	var (
		missing *pflag.NotExistError
		empty   *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &missing):
		dashes := "--"
		if missing.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		name := missing.GetSpecifiedName()
		if meant := nearest(cmd, name); dashes == "--" && meant != "" {
			lists = fmt.Sprintf("did you mean %s? %s", meant, lists)
		}
		return errs.New("set", dashes+name, "there is no flag of that name", lists)
	case errors.As(err, &empty):
		return errs.New("set", "--"+empty.GetFlag().Name, "it needs a value", lists)
	case !errors.As(err, &invalid):
		return errs.Wrap(err, "read", "the flags", lists)
	}
	kinds := map[string]string{"int": "whole number", "int64": "whole number", "float64": "number", "duration": "time such as 90s or 5m",
		"bool": "switch's value, true or false"}
	kind := kinds[invalid.GetFlag().Value.Type()]
	if kind == "" { // the error of the flag's own type says it
		return errs.Wrap(invalid.Unwrap(), "", "", lists)
	}
	if errors.Is(err, strconv.ErrRange) {
		kind += " of 64 bits"
	}
	return errs.New("set", fmt.Sprintf("--%s %q", invalid.GetFlag().Name, invalid.GetValue()), "not a "+kind, "give one")
}
