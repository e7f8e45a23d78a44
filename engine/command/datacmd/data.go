// Package datacmd makes, gets, packs and inspects data sets (gpustall data), and opens them for
// all commands.
package datacmd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/loader/synth"
)

// makers make synthetic data sets, by kind.
var (
	makers = map[string]func(context.Context, string, synth.Options) error{
		"cifar10": synth.CIFAR10, "imagefolder": synth.ImageFolder, "shards": synth.Shards, "clips": synth.Clips, "array": synth.Array,
	}
	makeNames = slices.Sorted(maps.Keys(makers))
)

// New returns the command gpustall data.
func New() *cobra.Command {
	data := &cobra.Command{Use: "data", Short: "Make, get, pack or inspect data sets", Args: flags.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Misuse(errs.New("run", "gpustall data", "it needs a command", "choose make, get, pack, inspect or transforms"))
		}}
	var o synth.Options
	mk := &cobra.Command{
		Use:       "make " + strings.Join(makeNames, "|") + " DIR",
		Short:     "Write a deterministic synthetic data set in the real formats",
		Example:   "  gpustall data make imagefolder DIR --samples 2000\n  gpustall data make cifar10 DIR",
		Args:      flags.Exactly(2, "a kind and a folder"),
		ValidArgs: makeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			make := makers[args[0]]
			if make == nil {
				return cli.Misuse(errs.New("make data", strconv.Quote(args[0]), "there is no kind of that name", "choose "+knob.Choice(makeNames)))
			}
			if cmd.Flags().Changed("samples") && o.Samples < 10 {
				return cli.Refuse(fmt.Sprintf("--samples %d", o.Samples), "too few", "ask for 10 or more")
			}
			if cli.Exists(args[1]) {
				return cli.Misuse(errs.New("make data", args[1], "it exists", "name a new folder"))
			}
			ctx, got, stop := cli.UntilSignal(cmd.Context(), nil)
			defer stop()
			progress := cli.ProgressTo(os.Stderr)
			o.Progress = func(done, total int) { progress("making "+args[0], done, total) }
			if err := make(ctx, args[1], o); err != nil {
				if sig := got(); sig != nil {
					return sig
				}
				return err
			}
			return inspect(ctx, args[1], nil, flags.Images{}, false)
		},
	}
	mk.Flags().IntVar(&o.Samples, "samples", 0, "training samples (default: 50000 for cifar10, 1000 for imagefolder and shards, 200 for clips and array)")
	mk.Flags().Int64Var(&o.Seed, "seed", 1, "the same seed gives the same bytes")
	data.AddCommand(mk, newGet(), newPack(), newInspect(), newTransforms())
	return data
}
