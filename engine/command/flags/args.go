package flags

import (
	"fmt"
	"slices"
	"strconv"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArgs refuses arguments. If one looks like the value of a switch, the hint says how to write
// that.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var flag string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if k, ok := f.Value.(*Knob); ok && f.NoOptDefVal == k.text && k.Check(args[0]) == nil {
			flag = f.Name
		}
	})
	if flag != "" { // the switch was given alone, and its value after a space
		return cli.Misuse(errs.New("read", strconv.Quote(args[0]), cmd.CommandPath()+" takes no arguments",
			fmt.Sprintf("write a switch's value after =, as in --%s=%s", flag, args[0])))
	}
	if cmd.HasParent() && !cmd.HasAvailableSubCommands() {
		hint := "leave it out"
		if cmd.Flags().Lookup("session") != nil {
			hint = "name a session with --session " + args[0]
		}
		return cli.Misuse(errs.New("read", strconv.Quote(args[0]), cmd.CommandPath()+" takes no arguments", hint))
	}
	return NoCommand(cmd, args[0])
}

// NoCommand returns the error of a command of parent that does not exist.
func NoCommand(parent *cobra.Command, name string) error {
	var names []string
	var words [][2]string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
			for _, word := range append([]string{c.Name()}, c.SuggestFor...) {
				words = append(words, [2]string{word, c.CommandPath()})
			}
		}
	}
	slices.Sort(names)
	choose := "choose " + knob.Choice(names)
	if meant := alike(name, words); meant != "" {
		choose = "did you mean " + meant + "? " + choose
	}
	return cli.Misuse(errs.New("find command", strconv.Quote(name), "there is none of that name", choose))
}

// AtLeast refuses fewer arguments than n. what names them.
func AtLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return Exactly(n, what)(cmd, args)
		}
		return nil
	}
}

// Exactly refuses any other number of arguments than n. what names them.
func Exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return cli.Misuse(errs.New("run", cmd.CommandPath(), "it got "+units.Counted(len(args), "argument", "arguments"), "name "+what))
		}
		return nil
	}
}
