package sweepcmd

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/torch/bridge"
)

// ofCommand makes the sweep one of a command of the user's. It refuses flags of gpustall's own training.
func (f *sweepFlags) ofCommand(args []string, fs *pflag.FlagSet) (err error) {
	f.command = args
	kept := slices.Concat([]string{"out", "knob", "ladder", "steps", "warmup", "repeat"}, flags.InGroup(flags.GroupSlurm))
	for _, name := range bridge.Live {
		kept = append(kept, flags.Name(name))
	}
	fs.Visit(func(given *pflag.Flag) {
		if !slices.Contains(kept, given.Name) {
			err = cli.Refuse("--"+given.Name, "it is for gpustall's own training",
				"write --knob NAME=VALUE,... and {NAME} where the command takes it")
		}
	})
	return err
}

// fills reports whether the command has a placeholder of that name.
func (f *sweepFlags) fills(name string) bool {
	return slices.Contains(sweep.Placeholders(f.command), name)
}

// values splits the values of a knob. What a command takes may hold an assignment.
func (f *sweepFlags) values(name, list string) []string {
	if f.fills(name) {
		return strings.Split(list, ",")
	}
	return values(list)
}

// checkSetting refuses a value that a setting never takes.
func (f *sweepFlags) checkSetting(name, value string) error {
	switch {
	case f.command == nil:
		return CheckSetting(name, value)
	case f.fills(name):
		return nil
	case !slices.Contains(bridge.Live, name):
		return errs.New("set", name+"="+value, "the command has no {"+name+"}, and it is no knob that can be changed while a script trains",
			"write {"+name+"} where the command takes the value, or choose "+knob.Choice(bridge.Live))
	}
	return flags.CheckKnob(name, value)
}

// fills returns a function that refuses a configuration without a value for a placeholder that others have a value for.
func fills(p *sweep.Plan) func(all []knob.Setting) (refused string, idle []string) {
	named := sweep.Placeholders(p.Command)
	varied := p.Names()
	return func(all []knob.Setting) (string, []string) {
		for _, name := range named {
			if slices.Contains(varied, name) && !slices.ContainsFunc(all, func(k knob.Setting) bool { return k.Name == name }) {
				return "it has no value for {" + name + "}: --knob " + name + "=VALUE gives one", nil
			}
		}
		return "", nil
	}
}

// unfilled returns the placeholders of the command that no setting has a value for.
func unfilled(p *sweep.Plan) []string {
	return slices.DeleteFunc(sweep.Placeholders(p.Command), func(name string) bool {
		is := func(k knob.Setting) bool { return k.Name == name }
		return name == sweep.RunName || slices.Contains(p.Names(), name) || slices.ContainsFunc(p.Base, is)
	})
}
