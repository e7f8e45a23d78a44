package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/synth"
)

// progressFunc is told how much of a long start-up is done.
type progressFunc func(what string, done, total int)

// progressTo draws a bar on a terminal; elsewhere it prints one line a task.
func progressTo(w io.Writer) progressFunc {
	var bar *progressbar.ProgressBar
	var current string
	tty := columnsOf(w) > 0
	return func(what string, done, total int) {
		if what != current {
			current = what
			if !tty {
				_ = say(w, "%s …\n", what)
				return
			}
			shown, width := barOf(what, columnsOf(w))
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(shown),
				progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(width), progressbar.OptionThrottle(50e6))
		}
		if tty && bar != nil {
			_ = bar.Set(done)
			if done >= total {
				_ = bar.Finish()
			}
		}
	}
}

// barOf is what a terminal so many columns wide has room for on one line, which the bar
// writes over: its words, cut where they must be, and how wide the bar is.
func barOf(what string, columns int) (shown string, width int) {
	const least, most, beside = 10, 40, len(" 100% ||  [59m59s:59m59s] ")
	shown = runewidth.Truncate(what, max(0, columns-beside-least), "…")
	return shown, min(most, max(0, columns-beside-runewidth.StringWidth(shown)))
}

// openPath opens a data set of whatever form.
func openPath(ctx context.Context, path string, files *source.Files, images imageFlags, progress progressFunc) (loader.Dataset, loader.Transform, error) {
	began := time.Now()
	o := format.Options{Files: files, Progress: func(done, total int) {
		if time.Since(began) > time.Second { // most sets are through by then
			progress("looking through the shards of "+path, done, total)
		}
	}}
	if checkHome("indexes of shards", cacheVariable, "") == nil {
		o.Cache = cacheDir()
	}
	images.to(&o)
	return format.Open(ctx, path, o)
}

// defaultData makes the synthetic CIFAR-10 once, in the cache directory.
func defaultData(ctx context.Context, progress progressFunc) (string, error) {
	if err := checkHome("the default data set", cacheVariable, "name a data set with --data"); err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir(), "synthetic-cifar10")
	if exists(dir) {
		return dir, nil
	}
	what := "making synthetic CIFAR-10 in " + dir + " (once)"
	err := synth.CIFAR10(ctx, dir, synth.Options{Progress: func(done, total int) { progress(what, done, total) }})
	if err != nil {
		return "", errs.Wrap(err, "make the default data set in", dir, "name one with --data")
	}
	return dir, nil
}

// makers are the kinds of data that can be made.
var (
	makers = map[string]func(context.Context, string, synth.Options) error{
		"cifar10": synth.CIFAR10, "imagefolder": synth.ImageFolder, "shards": synth.Shards, "clips": synth.Clips, "array": synth.Array,
	}
	makeNames = slices.Sorted(maps.Keys(makers))
)

func newData() *cobra.Command {
	data := &cobra.Command{Use: "data", Short: "Make, get, pack or inspect data sets", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{errs.New("run", "gpustall data", "it needs a command", "choose make, get, pack, inspect or transforms")}
		}}
	var o synth.Options
	mk := &cobra.Command{
		Use:       "make " + strings.Join(makeNames, "|") + " DIR",
		Short:     "Write a deterministic synthetic data set in the real formats",
		Args:      exactly(2, "a kind and a folder"),
		ValidArgs: makeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			make := makers[args[0]]
			if make == nil {
				return usageError{errs.New("make data", strconv.Quote(args[0]), "there is no kind of that name", "choose "+knob.Choice(makeNames))}
			}
			if cmd.Flags().Changed("samples") && o.Samples < 10 {
				return refuse(fmt.Sprintf("--samples %d", o.Samples), "too few", "ask for 10 or more")
			}
			if exists(args[1]) {
				return usageError{errs.New("make data", args[1], "it exists", "name a new folder")}
			}
			ctx, got, stop := untilSignal(cmd.Context(), nil)
			defer stop()
			progress := progressTo(os.Stderr)
			o.Progress = func(done, total int) { progress("making "+args[0], done, total) }
			if err := make(ctx, args[1], o); err != nil {
				if sig := got(); sig != nil {
					return sig
				}
				return err
			}
			return inspect(ctx, args[1], nil, imageFlags{}, false)
		},
	}
	mk.Flags().IntVar(&o.Samples, "samples", 0, "training samples (default: 50000 for cifar10, 1000 for imagefolder and shards, 200 for clips and array)")
	mk.Flags().Int64Var(&o.Seed, "seed", 1, "the same seed gives the same bytes")
	data.AddCommand(mk, newGet(), newPack(), newInspect(), newTransforms())
	return data
}
