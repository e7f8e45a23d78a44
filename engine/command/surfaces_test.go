package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/metrics"
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

// onScreen is what a screen of a size shows when a replay begins, and then of the session's settings.
func onScreen(s *trace.Session, w, h int) (began, settings string) {
	m := tui.New(tui.Options{Source: atEnd{s}, Replay: true, ASCII: true, NoColor: true})
	send := func(msg tea.Msg) {
		for cmd := tea.Cmd(func() tea.Msg { return msg }); cmd != nil; {
			_, cmd = m.Update(cmd())
		}
	}
	plain := func() string { return regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(m.View(), "") }
	send(tea.WindowSizeMsg{Width: w, Height: h})
	began = plain()
	send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("5")})
	send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("f")})
	return began, plain()
}

// sizes are those of screens, from the smallest on.
var sizes = [][2]int{{30, 6}, {40, 12}, {60, 20}, {80, 24}, {120, 36}, {160, 48}, {200, 60}}

// percentages returns the shares in the line of a screen that begins with the class of its verdict.
func percentages(screen string) (shares []float64) {
	class := regexp.MustCompile(`(?:^|[^A-Z])((?:MODERATELY )?[A-Z]+-BOUND|UNEXPLAINED)([^|\n]*)`)
	found := class.FindStringSubmatch(screen)
	if found == nil {
		return nil
	}
	for _, n := range regexp.MustCompile(`(\d+(?:\.\d+)?) ?%`).FindAllStringSubmatch(found[2], -1) {
		share, _ := strconv.ParseFloat(n[1], 64)
		shares = append(shares, share)
	}
	return shares
}

// sameAtEachSize reports whether the verdict has the same shares, as far as there is room, on screens of all sizes.
func sameAtEachSize(t *testing.T, name string, s *trace.Session) {
	t.Helper()
	widest, _ := onScreen(s, 240, 60)
	all := percentages(widest)
	for _, size := range sizes {
		view, _ := onScreen(s, size[0], size[1])
		for _, share := range percentages(view) {
			if !slices.ContainsFunc(all, func(other float64) bool { return math.Abs(other-share) <= 0.5 }) {
				t.Errorf("%s: at %dx%d the verdict says %v %%, which is none of %v:\n%s", name, size[0], size[1], share, all, view)
			}
		}
	}
}

// told is what the JSON summary says.
type told struct {
	Verdict string   `json:"verdict_text"`
	Class   string   `json:"verdict"`
	Advice  string   `json:"advice"`
	Knob    string   `json:"knob"`
	Judged  string   `json:"verdict_segment"`
	Steps   int      `json:"steps"`
	Rate    *float64 `json:"samples_per_s"`
	Util    *float64 `json:"device_utilization"`
	Table   []struct {
		Name    string   `json:"name"`
		Counted int      `json:"steps_counted"`
		Rate    *float64 `json:"samples_per_s"`
		Util    *float64 `json:"device_utilization"`
		Data    *float64 `json:"data_share"`
		VsA     *struct {
			Ratio *float64 `json:"ratio"`
		} `json:"versus_baseline"`
	} `json:"segment_table"`
}

// spoken are sessions of PyTorch trainings: a loop without a DataLoader, one that leaves its DataLoader, short epochs, a
// data set that is a stream, validation, two ranks, a training that ran already, and a tune.
var spoken = []string{"inline", "changing", "epochs", "stream", "validation", "ranks", "attached", "tuned"}

var tags = regexp.MustCompile("<[^>]*>")

// plainLines: a line of --plain has the summary's numbers where its seconds are all of the session, and the line of code is the
// report's. It reports whether the seconds are all.
func plainLines(t *testing.T, name string, snap *trace.Snapshot, told *told, report string) bool {
	t.Helper()
	if code := strings.Fields(keptLine(snap)); len(code) > 0 && !strings.Contains(report, strings.Join(code[1:], " ")) {
		t.Errorf("%s: the report has not the line of --plain, %q", name, code)
	}
	line := summary.ProgressOf(snap, 0, 0).Line()
	if told.Steps > 0 && !strings.Contains(line, fmt.Sprintf("  step %d  ", told.Steps)) {
		t.Errorf("%s: --plain says %q of %d steps", name, line, told.Steps)
	}
	if told.Rate == nil || told.Util == nil || snap.First.End <= snap.Now-5e9 || snap.Meta.Alone() || snap.Meta.Imported != "" {
		return false
	}
	if want := fmt.Sprintf(": %s samples/s  util %s  ", units.Rate(*told.Rate), units.Prose.Percent(*told.Util)); !strings.Contains(line, want) {
		t.Errorf("%s: --plain has no %q: %s", name, want, line)
	}
	return true
}

// throughputRow is the row of compare's table whose change is that of the two rates in it.
var throughputRow = regexp.MustCompile(`\| throughput(?:, taking turns \(A/B test\))? +\| +([\d,.]+)/s \| +([\d,.]+)/s \| +(~?[-+][\d,.]+ %|[\d.]+ %)( without drift)? \|`)

// comparedText: in what compare prints, the change is the ratio of the two rates beside it, or what drift explains is said. The headline,
// and the rates unless they were measured in turns, are those of others. It reports whether there is a drift.
func comparedText(t *testing.T, name string, c *report.Comparison) (drifted bool) {
	t.Helper()
	var b bytes.Buffer
	if err := c.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	row := throughputRow.FindStringSubmatch(b.String())
	if row == nil {
		t.Errorf("%s: compare has no row of the throughput:\n%s", name, text)
		return false
	}
	number := func(s string) float64 {
		v, _ := strconv.ParseFloat(strings.NewReplacer(",", "", "~", "", " %", "", "+", "").Replace(s), 64)
		return v
	}
	drift := c.Throughput.LessDrift()
	switch off := math.Abs(1 + number(row[3])/100 - number(row[2])/number(row[1])); {
	case row[4] != "":
		if drift == "" || !strings.Contains(text, drift[1:]) {
			t.Errorf("%s: compare does not say what drift explains, %q:\n%s", name, drift, text)
		}
	case off > 0.006*(1+number(row[2])/number(row[1])):
		t.Errorf("%s: compare says %s of %s and %s samples/s", name, row[3], row[1], row[2])
	}
	switch head := c.Headline(); {
	case c.Throughput.Answer == stats.Different && !strings.Contains(head, units.Prose.Gain(c.Throughput.Estimate())+row[4]+" (95 % interval "+units.Prose.GainRange(c.Throughput.Estimate())):
		t.Errorf("%s: compare begins with %q, and its row has %q", name, head, row[0])
	case c.Pairs == 0 && (row[1] != units.Rate(c.Sides[0].Row.SamplesPerSecond) || row[2] != units.Rate(c.Sides[1].Row.SamplesPerSecond)):
		t.Errorf("%s: compare has other rates than the report: %q", name, row[0])
	}
	return drift != ""
}

// metric is a counter of the time of steps, as --metrics writes it.
var metric = regexp.MustCompile(`gpustall_time_seconds_total\{cause="(\w+)"[^}]*\} (\S+)`)

// exported: in the metrics of a whole session, computing has the share of the steps' time that the summary tells.
func exported(t *testing.T, name string, s *trace.Session, told *told) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "metrics.prom")
	e, err := metrics.Start(file, atEnd{s}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	e.Stop()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	computing, all := 0.0, 0.0
	for _, m := range metric.FindAllStringSubmatch(string(text), -1) {
		v, _ := strconv.ParseFloat(m[2], 64)
		switch m[1] {
		case "paused": // is in no share
			continue
		case "computing":
			computing = v
		}
		all += v
	}
	if told.Util != nil && all > 0 && math.Abs(computing/all-*told.Util) > 0.0005 {
		t.Errorf("%s: the metrics have a utilisation of %.4f, and the summary %.4f", name, computing/all, *told.Util)
	}
}

// labText: what a course's lab says of a session whose settings are compared has the report's two rates.
func labText(t *testing.T, name string, snap *trace.Snapshot, written string) {
	t.Helper()
	l, err := report.NewLab(report.Side{Snapshot: snap})
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := l.Write(func(file string, content func(io.Writer) error) error {
		if file != report.LabReport {
			return nil
		}
		var b bytes.Buffer
		err := content(&b)
		text = b.String()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if row := throughputRow.FindStringSubmatch(text); row != nil && (!strings.Contains(written, row[1]+"/s") || !strings.Contains(written, row[2]+"/s")) {
		t.Errorf("%s: the lab has rates that the report has not: %q", name, row[0])
	}
}

// TestOneNumber: the summary, its JSON, the report in both formats and doctor tell the same verdict, advice, rates and
// shares of a recorded session, and so do screens of all sizes. A gain is the ratio of the two rates beside it, unless it says that a
// drift was taken out, or comes from an A/B test. The metrics and a course's lab have the same numbers. The screen and compare have the same rates and
// gains, and the same advice. Report and screen have an A/B test's rates and gain. A line of --plain, and what compare prints, agree
// with them.
func TestOneNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpackSessions(t, dir)
	recordSegments(t, filepath.Join(dir, "compared"+store.Ext), 20e6, 10e6, 5e6)
	test := trace.Experiment{Kind: trace.Paired, Start: 1, End: 2, First: 3, Last: 3, A: []knob.Setting{{Name: "num_workers", Value: "3"}}, B: []knob.Setting{{Name: "num_workers", Value: "2"}}}
	for range 8 { // it finds another gain than the segments do, which met another state of the host
		test.Pairs = append(test.Pairs, trace.Pair{A: trace.Block{Steps: 10, Samples: 100, Active: 60e6, Busy: 20e6}, B: trace.Block{Steps: 10, Samples: 100, Active: 90e6, Busy: 20e6}})
	}
	recordExperiments(t, filepath.Join(dir, "tested"+store.Ext), []workersTook{{"1", 20e6, 0}, {"2", 10e6, 0}, {"3", 5e6, 0}, {"2", 10e6, 0}, {"3", 5e6, 0}}, test)
	flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	undecided := test
	undecided.Pairs, undecided.Why = test.Pairs[:1], "it was stopped"
	recordExperiments(t, filepath.Join(dir, "undecided"+store.Ext), []workersTook{{"1", 20e6, 0}, {"2", 10e6, 0}, {"3", 5e6, 0}, {"2", 10e6, 0}, {"3", 5e6, 0}}, undecided)
	// While 2 workers ran, and then 3, the host became ever slower: 3 are faster only without that.
	recordExperiments(t, filepath.Join(dir, "drifting"+store.Ext), []workersTook{{"1", 20e6, 0}, {"2", 20e6, 2500}, {"3", 20.5e6, 2500}})
	for _, workers := range []string{"0", "4"} {
		file := "resnet50_num_workers_" + workers
		from, err := filepath.Abs("../torch/testdata/" + file + ".pt.trace.json.gz")
		if err != nil {
			t.Fatal(err)
		}
		if r := gpustall(t, "import", from, "--session", filepath.Join(dir, file+store.Ext)); r.code != 0 {
			t.Fatal(r.stderr)
		}
	}
	listed, err := store.Digests(dir)
	if err != nil {
		t.Fatal(err)
	}
	compared, answered, advised, tested, whole, drifted := 0, 0, 0, 0, 0, 0
	for _, name := range slices.Concat(guarded, spoken, []string{"compared", "tested", "undecided", "drifting", "resnet50_num_workers_0", "resnet50_num_workers_4"}) {
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
		var page bytes.Buffer
		if err := report.HTML(&page, snap, report.Options{}); err != nil {
			t.Fatal(err)
		}
		surfaces := map[string]string{"summary": flat(run.Text()), "report": flat(b.String()), "doctor": flat(doctor.stdout), "page": flat(html.UnescapeString(tags.ReplaceAllString(page.String(), "")))}
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		var told told
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		next, _, _ := strings.Cut(told.Advice, ": ")
		for surface, says := range surfaces {
			if !strings.Contains(says, flat(told.Verdict)[1:]) { // a sentence begins with a capital
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
		if told.Steps > 0 && told.Rate != nil && told.Util != nil && !snap.Meta.Alone() {
			for _, want := range []string{units.Counted(told.Steps, "step", "steps"), units.Prose.Percent(*told.Util)} {
				if !strings.Contains(surfaces["summary"], want) {
					t.Errorf("%s: the summary has no %q", name, want)
				}
			}
		}
		sameAtEachSize(t, name, s)
		exported(t, name, s, &told)
		labText(t, name, snap, surfaces["report"])
		if plainLines(t, name, snap, &told, surfaces["report"]) {
			whole++
		}
		if i := slices.IndexFunc(listed, func(e store.Entry) bool { return filepath.Base(e.Path) == name+store.Ext }); i >= 0 {
			verdict := sessionRow(&listed[i])[4] // "input-bound 33.4 %"
			if class, share, _ := strings.Cut(verdict, " "); !strings.HasPrefix(told.Verdict, class) || !strings.Contains(told.Verdict, share) {
				t.Errorf("%s: the list says %q, and the summary %q", name, verdict, told.Verdict)
			}
		} else {
			t.Errorf("%s is not listed", name)
		}
		began, settings := onScreen(s, 240, 60)
		a, screen := 0.0, began+settings
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
			if row.Baseline || !slices.ContainsFunc(rows, func(r attribution.SegmentStats) bool { return r.Baseline && r.Steps > 0 }) {
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
			if comparedText(t, name, c) && change.Answer == stats.Different {
				drifted++
				drift := change.LessDrift()[1:]
				if !strings.Contains(screen, drift) || !strings.Contains(surfaces["report"], drift) {
					t.Errorf("%s: report and screen do not say %q of segment %s:\n%s", name, drift, row.Name(), screen)
				}
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
			if row.Counted == 0 || row.Rate == nil || row.VsA == nil && row.Name != "A" { // a segment of an experiment
				continue
			}
			data := "not known"
			if row.Data != nil {
				data = units.Prose.Percent(*row.Data)
			}
			cells := fmt.Sprintf("| %s | %s |", units.Prose.Percent(*row.Util), data)
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
	if compared == 0 || answered < 5 || advised == 0 || tested == 0 || whole < 3 || drifted == 0 {
		t.Errorf("%d pairs of settings are compared, %d comparisons and %d A/B tests have an answer, %d sessions end with the settings that are advised on, %d are brief, and in %d pairs the host drifted",
			compared, answered, tested, advised, whole, drifted)
	}
}
