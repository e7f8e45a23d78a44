package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/tui"
)

// atEnd shows a session as of its last step. A session that a test made in no time has steps that are
// later than its clock's now.
type atEnd struct{ *trace.Session }

func (s atEnd) Snapshot(from, to int64) *trace.Snapshot {
	snap := s.Session.Snapshot(from, to)
	snap.Now = max(snap.Now, snap.Last.End)
	return snap
}

// onScreen is what the screen shows when a replay begins, and then of the session's settings.
func onScreen(s *trace.Session) string {
	m := tui.New(tui.Options{Source: atEnd{s}, Replay: true, ASCII: true, NoColor: true})
	send := func(msg tea.Msg) {
		for cmd := tea.Cmd(func() tea.Msg { return msg }); cmd != nil; {
			_, cmd = m.Update(cmd())
		}
	}
	send(tea.WindowSizeMsg{Width: 240, Height: 60})
	began := m.View()
	send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("5")})
	send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("f")})
	return regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(began+m.View(), "")
}

// TestOneNumber: the summary, its JSON, the report and doctor tell the same verdict, advice, rates and
// shares of a recorded session. A gain is the ratio of the two rates beside it, unless it says that a
// drift was taken out, or comes from an A/B test. The screen and compare have the same rates and
// gains, and the same advice. Report and screen have an A/B test's rates and gain.
func TestOneNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpackSessions(t, dir)
	recordSegments(t, filepath.Join(dir, "compared"+store.Ext), 20e6, 10e6, 5e6)
	test := trace.Experiment{Kind: trace.Paired, Start: 1, End: 2, First: 3, Last: 3, A: []knob.Setting{{Name: "num_workers", Value: "3"}}, B: []knob.Setting{{Name: "num_workers", Value: "2"}}}
	for range 8 { // it finds another gain than the segments do, which met another state of the host
		test.Pairs = append(test.Pairs, trace.Pair{A: trace.Block{Steps: 10, Samples: 100, Active: 60e6, Busy: 20e6}, B: trace.Block{Steps: 10, Samples: 100, Active: 90e6, Busy: 20e6}})
	}
	recordExperiments(t, filepath.Join(dir, "tested"+store.Ext), []workersTook{{"1", 20e6}, {"2", 10e6}, {"3", 5e6}, {"2", 10e6}, {"3", 5e6}}, test)
	flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	compared, answered, advised, tested := 0, 0, 0, 0
	for _, name := range append(slices.Clone(guarded), "compared", "tested") {
		path := filepath.Join(dir, name+store.Ext)
		s, err := store.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		snap := all(s)
		run := summary.Of(snap, filepath.Base(path))
		var b bytes.Buffer
		if err := report.Markdown(&b, snap, report.Options{}); err != nil {
			t.Fatal(err)
		}
		doctor := gpustall(t, "doctor", "--session", path)
		surfaces := map[string]string{"summary": flat(run.Text()), "report": flat(b.String()), "doctor": flat(doctor.stdout)}
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			Verdict string `json:"verdict_text"`
			Advice  string `json:"advice"`
			Knob    string `json:"knob"`
			Judged  string `json:"verdict_segment"`
			Table   []struct {
				Name    string   `json:"name"`
				Counted int      `json:"steps_counted"`
				Rate    *float64 `json:"samples_per_s"`
				Util    *float64 `json:"device_utilization"`
				Data    *float64 `json:"data_share"`
				VsA     *struct {
					Answer string   `json:"answer"`
					Ratio  *float64 `json:"ratio"`
				} `json:"versus_baseline"`
			} `json:"segment_table"`
		}
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		next, _, _ := strings.Cut(told.Advice, ": ")
		for surface, says := range surfaces {
			if !strings.Contains(says, flat(told.Verdict)) {
				t.Errorf("%s: the %s has another verdict than %q", name, surface, told.Verdict)
			}
			want := flat(next)
			if surface == "doctor" { // remedy and gain have a line each
				want = strings.TrimSuffix(strings.Replace(want, " (", " gain ", 1), ")")
			}
			if told.Knob != "" && !strings.Contains(says, want) {
				t.Errorf("%s: the %s has other advice than %q", name, surface, next)
			}
		}
		a, screen := 0.0, onScreen(s)
		rows := attribution.Segments(snap)
		if last := rows[len(rows)-1].Name(); told.Knob != "" && told.Judged == last {
			advised++
			remedy, _, _ := strings.Cut(next, " (")
			if !strings.Contains(screen, remedy) {
				t.Errorf("%s: the screen has other advice than %q:\n%s", name, next, screen)
			}
		}
		for _, row := range rows {
			if row.Steps == 0 {
				continue
			}
			change := &row.VsA.Throughput
			wants := []string{" " + string(units.AppendRate(nil, row.SamplesPerSecond)) + " "}
			if change.Answer == stats.Different {
				wants = append(wants, " "+string(units.Narrow.AppendGain(nil, change.Estimate()))+" ")
			}
			for _, want := range wants {
				if !strings.Contains(screen, want) {
					t.Errorf("%s: the screen has no%sof segment %s:\n%s", name, want, row.Name(), screen)
				}
			}
			if row.Baseline {
				continue
			}
			c, err := report.Compare(report.Side{Snapshot: snap, Segment: "A"}, report.Side{Snapshot: snap, Segment: row.Name()})
			if err != nil {
				t.Fatal(err)
			}
			if change.Answer == stats.Different {
				answered++
			}
			if got := c.Throughput.String(); got != change.String() {
				t.Errorf("%s: compare says %s of segment %s, and the report %s", name, got, row.Name(), change)
			}
		}
		for _, x := range attribution.Experiments(snap, rows) { // an A/B test's own figures
			change := &x.Change.Throughput
			if x.Kind != trace.Paired || change.Answer != stats.Different {
				continue
			}
			tested++
			tried, before := x.Sides[1].SamplesPerSecond(), x.Sides[0].SamplesPerSecond()
			for _, want := range []string{change.String(), units.Rate(tried) + "/s", units.Rate(before) + "/s"} {
				if !strings.Contains(surfaces["report"], want) {
					t.Errorf("%s: the report has no %q of the A/B test", name, want)
				}
			}
			for _, want := range []string{change.String(), " " + string(units.AppendRate(nil, tried)) + " "} {
				if !strings.Contains(screen, want) {
					t.Errorf("%s: the screen has no %q of the A/B test:\n%s", name, want, screen)
				}
			}
		}
		for _, row := range told.Table {
			if row.Name == "A" && row.Rate != nil {
				a = *row.Rate
			}
			if row.Counted == 0 || row.Rate == nil {
				continue
			}
			cells := fmt.Sprintf("| %s | %s |", units.Prose.Percent(*row.Util), units.Prose.Percent(*row.Data))
			if !strings.Contains(surfaces["report"], cells) || !strings.Contains(surfaces["report"], " "+units.Rate(*row.Rate)+" ") {
				t.Errorf("%s: the report has no segment of %s samples/s with %s", name, units.Rate(*row.Rate), cells)
			}
			if row.VsA == nil || row.VsA.Ratio == nil || *row.VsA.Ratio <= 0 || a <= 0 {
				continue
			}
			compared++
			off := math.Abs(math.Log(*row.VsA.Ratio / (*row.Rate / a)))
			if off > math.Log(1.02) && !strings.Contains(surfaces["report"], "drift") && !strings.Contains(surfaces["report"], "pairs of an "+stats.Turns) {
				t.Errorf("%s: %s is told as %.3f times A's rate; the rates are %.1f and %.1f", name, row.Name, *row.VsA.Ratio, *row.Rate, a)
			}
		}
	}
	if compared == 0 || answered < 5 || advised == 0 || tested == 0 {
		t.Errorf("%d pairs of settings are compared, %d comparisons and %d A/B tests have an answer, and %d sessions end with the settings that are advised on", compared, answered, tested, advised)
	}
}
