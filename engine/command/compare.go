package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/command/sweepcmd"
	"dev.gpustall/engine/report"
)

func newCompare() *cobra.Command {
	var fails []string
	var asJSON bool
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two sessions or sweeps: what changed, by how much, how sure",
		Long: `Say what differs between two sessions: throughput with its interval, step
times, what the device waited for, settings and environment. A and B are
files, names that gpustall sessions lists, or latest. Of a session with
several segments, the settings to keep are compared, or the segment that is
named behind a colon. Of two sweeps, each configuration is compared that both
have. For a folder of a distributed training's sessions, the first rank's is
compared, and it is said how the ranks went together.

With --fail-if the exit code is 1 where B is certainly worse by more than
that. What is not known yet does not fail; it is said on standard error.`,
		Example: `  gpustall compare latest:A latest:#2  # two segments of one session
  gpustall compare before/ after/      # two distributed trainings
  gpustall compare before.gpustall latest --fail-if slower=5% --fail-if memory=10%`,
		Args: flags.Exactly(2, "two sessions"),
		RunE: func(_ *cobra.Command, args []string) error {
			limits, err := parseLimits(fails)
			if err != nil {
				return err
			}
			if sweep.IsFolder(args[0]) && sweep.IsFolder(args[1]) {
				return sweepcmd.Compare(args, asJSON, &out, func(config string, c *stats.Change, memory [2]int64) error {
					return judge(os.Stderr, config, c, memory, limits)
				})
			}
			var sides [2]report.Side
			for i, name := range args {
				if sides[i], err = openSide(name); err != nil {
					return err
				}
			}
			c, err := report.Compare(sides[0], sides[1])
			if err != nil {
				return err
			}
			write := c.Markdown
			if asJSON {
				write = func(w io.Writer) error { return json.NewEncoder(w).Encode(summary.ComparisonOf(c)) }
			}
			if err := out.Write("the comparison", write, sides[0].Session, sides[1].Session); err != nil {
				return err
			}
			return judge(os.Stderr, c.Sides[1].Session, &c.Throughput, [2]int64{c.Sides[0].Memory, c.Sides[1].Memory}, limits)
		},
	}
	cmd.Flags().StringSliceVar(&fails, "fail-if", nil, "fail where B is worse by more than so much: "+knob.Choice(limitNames())+", as in `slower=5%`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object instead of markdown")
	out.Add(cmd.Flags())
	return cmd
}

// openSide opens a session, or that of the first rank of the job in a folder. A segment may be named after a colon.
func openSide(name string) (report.Side, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		f, _, err := openJob([]string{name}, 0)
		if err != nil {
			return report.Side{}, err
		}
		side, how, ok := f.Lead()
		if side.Job = how; !ok {
			return side, errs.New("compare", name, "none of its sessions is about a rank", "name two sessions")
		}
		return side, nil
	}
	path, segment, err := splitSession(name)
	if err != nil {
		return report.Side{}, err
	}
	s, err := openSession(path)
	if err != nil {
		return report.Side{}, err
	}
	return report.Side{Session: path, Snapshot: s.Snapshot(0, 0), Segment: segment}, nil
}

// limit is how much worse B may be in one measurement.
type limit struct {
	criterion
	share float64
}

// criterion is a measurement that --fail-if can name. worse returns the share by which B is
// certainly worse than A, or false and why that is unknown.
type criterion struct {
	name, what string
	worse      func(t *stats.Change, memory [2]int64) (share float64, why string, known bool)
}

var criteria = []criterion{
	{"slower", "less throughput", func(t *stats.Change, _ [2]int64) (float64, string, bool) {
		if t.Answer == stats.Unknown {
			return 0, t.Missing.String(), false
		}
		return 1 - t.Hi, "", true
	}},
	{"memory", "more device memory", func(_ *stats.Change, memory [2]int64) (float64, string, bool) {
		a, b := memory[0], memory[1]
		if a == 0 || b == 0 {
			return 0, "not measured", false
		}
		return float64(b)/float64(a) - 1, "", true
	}},
}

func limitNames() []string {
	names := make([]string, len(criteria))
	for i := range criteria {
		names[i] = criteria[i].name
	}
	return names
}

// parseLimits parses the values of --fail-if.
func parseLimits(texts []string) (limits []limit, err error) {
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		l := limit{}
		for _, c := range criteria {
			if c.name == name {
				l.criterion = c
			}
		}
		flag := fmt.Sprintf("--fail-if %q", text)
		if l.name == "" {
			return nil, cli.Refuse(flag, "there is no measurement of that name", "choose "+knob.Choice(limitNames()))
		}
		percent, perr := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if perr != nil || !strings.HasSuffix(value, "%") || !(percent >= 0 && percent <= 1000) {
			return nil, cli.Refuse(flag, "its limit is no percentage from 0 to 1000", "write it as "+name+"=5%")
		}
		l.share = percent / 100
		limits = append(limits, l)
	}
	return limits, nil
}

// judge returns an error if B is certainly worse than a limit allows. It writes to w which
// limits cannot be judged yet.
func judge(w io.Writer, b string, t *stats.Change, memory [2]int64, limits []limit) error {
	for _, l := range limits {
		share, why, known := l.worse(t, memory)
		if !known {
			if err := cli.Say(w, "gpustall: compare %s: whether B is worse (%s) is not known yet: %s\n", units.Line(b), l.what, why); err != nil {
				return err
			}
			continue
		}
		if share > l.share {
			return errs.New("compare", b, fmt.Sprintf("at least %s %s than A, where %s are allowed",
				units.Prose.Percent(share), l.what, units.Prose.Percent(l.share)), "see in what the two differ")
		}
	}
	return nil
}
