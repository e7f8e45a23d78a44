package command

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/remote"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

func newTry() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "try SESSION KNOB=VALUE...",
		Short: "Have a live run test settings, and keep them if they are faster",
		Long: `Ask the run that writes a session for an A/B test: the settings take turns with
those in force until it is certain which are faster. They stay if they are, and
are taken back if they are not, or if this command is interrupted. SESSION is a
file, a name that gpustall sessions lists, or latest. The run must be on this
machine, and of the same user.`,
		Example: `  gpustall try latest num_workers=8
  gpustall try latest num_workers=8 pin_memory=on --json  # for a program`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Misuse(errs.New("run", "gpustall try", "it was given no session, or no setting", "write gpustall try latest num_workers=8"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var knobs []knob.Setting
			for _, arg := range args[1:] {
				k, err := settingOf(arg)
				if err != nil {
					return cli.Misuse(err)
				}
				knobs = append(knobs, k)
			}
			path, err := findSession(args[0])
			if err != nil {
				return err
			}
			return tryOn(cmd.Context(), path, knobs, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// settingOf reads "KNOB=VALUE".
func settingOf(text string) (knob.Setting, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return knob.Setting{}, errs.New("set", text, "it is no setting", "write KNOB=VALUE, as num_workers=8")
	}
	return knob.Setting{Name: strings.ReplaceAll(name, "-", "_"), Value: value}, nil
}

// tryOn makes the run of a session test settings, and prints the result.
func tryOn(parent context.Context, path string, knobs []knob.Setting, asJSON bool) error {
	ctx, got, stop := cli.UntilSignal(parent, func() {})
	defer stop()
	out, err := trialOf(ctx, path, knobs)
	if err != nil {
		return err
	}
	if asJSON {
		if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
			return errs.Wrap(err, "print", "the result", "print it to a place with room")
		}
	} else if err := cli.Say(os.Stdout, "%s", out.Lines()); err != nil {
		return err
	}
	return got()
}

// trialOf makes the run of a session test settings. If ctx is done first, the run takes them back.
func trialOf(ctx context.Context, path string, knobs []knob.Setting) (*summary.Trial, error) {
	f, err := store.Follow(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !f.Running() {
		return nil, errs.New("try settings on", path, "its run has ended", "gpustall sessions says which go on")
	}
	before := f.Snapshot(0, 0)
	if err := barred(before, knobs); err != nil {
		return nil, cli.Misuse(err)
	}
	c, err := remote.Dial(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	predicted := foreseen(f.Session(), knobs)
	if err := c.Begin(trace.Paired, knobs); err != nil {
		return nil, err
	}
	x := awaitExperiment(ctx, f, len(before.Experiments))
	if x == nil && ctx.Err() != nil {
		c.Stop()
		x = awaitExperiment(context.WithoutCancel(ctx), f, len(before.Experiments))
	}
	if x == nil {
		return nil, errs.New("try settings on", path, "the run ended before the test did", "try them in a longer run")
	}
	return summary.TrialOf(all(f.Session()), path, x.Index, predicted), nil
}

// barred returns why one of the settings cannot be in force in a run; nil where all can, or are.
func barred(s *trace.Snapshot, settings []knob.Setting) error {
	for _, k := range settings {
		spec := knob.SpecOf(s.Meta.Specs, k.Name)
		if spec == nil {
			return errs.New("set", k.Name, "the run has no such knob", "choose "+knob.Choice(changeable(s)))
		}
		if why := spec.Bars(k.Value); why != "" && !holds(s, spec, k) {
			return errs.New("set", k.Name+"="+k.Value, why, cmp.Or(spec.Hint, "choose "+knob.Choice(changeable(s))))
		}
	}
	return nil
}

// holds reports whether a setting is in force in a run.
func holds(s *trace.Snapshot, spec *knob.Spec, k knob.Setting) bool {
	n := len(s.Segments)
	text, err := knob.Canonical(spec, k.Value)
	return n > 0 && err == nil && text == knob.ValueOf(s.Segments[n-1].Knobs, k.Name)
}

// changeable returns the names of the knobs that can be changed while the run goes on.
func changeable(s *trace.Snapshot) (names []string) {
	for i := range s.Meta.Specs {
		if k := &s.Meta.Specs[i]; k.NoEffect == "" {
			names = append(names, k.Name)
		}
	}
	return names
}

// awaitExperiment waits until the experiment of that index has ended. It returns nil if the run or ctx
// ended first.
func awaitExperiment(ctx context.Context, f *store.Followed, index int) *trace.Experiment {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		xs := f.Snapshot(0, 0).Experiments
		if len(xs) > index && !xs[index].Running() {
			return &xs[index]
		}
		if !f.Running() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
