package command

import (
	"cmp"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

func newSessions() *cobra.Command {
	return &cobra.Command{
		Use:        "sessions",
		SuggestFor: []string{"list", "ls"},
		Short:      "List the sessions in the state directory",
		Long: `List the sessions in the state directory, the newest first: how each ended,
how long it ran, the verdict on the settings to keep (the first ones, where
none were found better), device utilisation with these, and what they gained
against the baseline (a dash where none was measurably faster).`,
		Example: `  gpustall sessions
  gpustall report latest`,
		Args: flags.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := cli.CheckSessionHome("name a session's file to report and replay"); err != nil {
				return err
			}
			list, err := store.Digests(cli.SessionDir())
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return cli.Say(os.Stdout, "no sessions in %s; gpustall run makes one\n", cli.SessionDir())
			}
			return listSessions(os.Stdout, list)
		},
	}
}

// listSessions writes a row for each session.
func listSessions(w io.Writer, list []store.Entry) error {
	rows := [][]string{{"session", "started", "status", "duration", "verdict", "util", "best gain", "run"}}
	for i := range list {
		rows = append(rows, sessionRow(&list[i]))
	}
	var wide []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] { // the last cell has the rest of the line
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], runewidth.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			b.WriteString(runewidth.FillRight(cell, wide[i]) + "  ")
		}
		b.WriteString(row[len(row)-1] + "\n")
	}
	return cli.Say(w, "%s", b.String())
}

// sessionRow returns the row of a session, as far as its file tells.
func sessionRow(e *store.Entry) []string {
	name := units.Line(baseName(e.Path))
	if e.Err != nil && e.Outcome.Status == "" {
		return []string{name, "cannot be opened: " + e.Err.Error()}
	}
	started, run := startedAt(e.Meta.Started), units.Line(e.Meta.Model)+" on "+units.Line(e.Meta.Device)
	if e.Err != nil { // its end is known even so
		return []string{name, started, units.Line(e.Outcome.Status), "-", "-", "-", "-", run + "; " + e.Err.Error()}
	}
	snap := e.Session.Snapshot(0, 0)
	segments := attribution.Segments(snap)
	a, at := advice.Overall(snap, segments)
	util := "-"
	if len(segments) > 0 && segments[at.Kept].Steps > 0 { // of the settings that the verdict is about
		util = shareOr(segments[at.Kept].Utilisation)
	}
	return []string{
		name, started, units.Line(snap.Outcome.Status), units.Prose.Time(duration(snap)), inShort(a.Verdict), util,
		bestGain(&a.Keep), run + advice.Brackets(a.Labels),
	}
}

// startedAt returns when a run started. A trace may not tell.
func startedAt(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("2006-01-02 15:04:05")
}

// duration returns how long a run took, as far as that is known.
func duration(s *trace.Snapshot) int64 {
	if s.Outcome.Ended > 0 {
		return s.Outcome.Ended
	}
	return s.Now
}

// inShort returns the class of a verdict and, if it is about lost time, how much.
func inShort(v advice.Verdict) string {
	if v.Group == trace.GroupNone {
		return cmp.Or(v.Class, "-")
	}
	return v.Class + " " + units.Prose.Percent(v.Share)
}

// bestGain returns what the settings to keep have gained.
func bestGain(k *advice.Keep) string {
	if k.Change.Throughput.Ratio == 0 { // the baseline itself
		return "-"
	}
	if c := &k.Change.Throughput; c.Answer == stats.Unknown {
		return units.Prose.Gain(units.Rough(c.Ratio))
	}
	return units.Prose.Gain(k.Change.Throughput.Estimate())
}

// shareOr returns a share, or a dash if there is none.
func shareOr(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return units.Prose.Percent(share)
}
