package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

var update = flag.Bool("update", false, "write the goldens")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// sections are the headings of every report, in order.
var sections = []string{
	"The timeline", "What was changed, and why", "What to keep, and what next", "Caveats",
	"Appendix A: environment", "Appendix B: all knobs and measurements", "Appendix C: all segments", "Appendix D: epochs",
	"Appendix E: device operations", "Appendix F: the worst batches and samples",
}

// TestMarkdown: save, load, render.
func TestMarkdown(t *testing.T) {
	for name, sc := range scripts() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Markdown(&b, sc.run(t), Options{}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".md", b.Bytes())
			var heads []string
			for _, l := range strings.Split(b.String(), "\n") {
				if h, ok := strings.CutPrefix(l, "## "); ok {
					heads = append(heads, h)
				}
				if strings.Contains(l, "%!") {
					t.Errorf("bad format: %s", l)
				}
				if n := utf8.RuneCountInString(l); strings.HasPrefix(l, "|") && n > markup.Width {
					t.Errorf("a row of a table is %d columns wide: %s", n, l)
				}
			}
			want := sections
			if name == "empty" {
				want = sections[2:] // no picture, and nothing to explain
			}
			if d := cmp.Diff(want, heads); d != "" {
				t.Errorf("sections (-want +got):\n%s", d)
			}
		})
	}
}

// TestNumbers checks what the text says against the script's own durations.
func TestNumbers(t *testing.T) {
	s := scripts()["tuned"].run(t)
	a := newAccount(s)
	if a.first != 0 || a.last != 1 {
		t.Fatalf("baseline row %d, final row %d; the ceiling is no result", a.first, a.last)
	}
	// A: 12 ms of loading, enqueuing and the copy, while the device computes 8 ms of
	// the step before: 8/12.4 busy. B: the device's 8 ms.
	if u := a.rows[0].Utilisation; u < 0.63 || u > 0.66 {
		t.Errorf("baseline utilisation %.3f", u)
	}
	if u := a.rows[1].Utilisation; u < 0.98 {
		t.Errorf("final utilisation %.3f", u)
	}
	b := a.rows[0].Breakdown
	total := b.Busy
	for _, ns := range b.Stall {
		total += ns
	}
	if total != b.Wall {
		t.Errorf("busy and causes are %d, wall is %d", total, b.Wall)
	}
	c := &a.rows[1].VsA.Throughput
	if r := Reduction(c); c.Answer != stats.Different || r.Value < 0.32 || r.Value > 0.37 || r.Lo > r.Value || r.Hi < r.Value {
		t.Errorf("comparison %+v, reduction %+v", c, Reduction(c))
	}
	e := a.epochOf(0)
	if e.runs != 2 {
		t.Fatalf("%d full epochs under A", e.runs)
	}
	if d := math.Abs(float64(e.measured)/float64(e.projected) - 1); d > 0.02 {
		t.Errorf("measured %d and projected %d differ by %.1f %%", e.measured, e.projected, 100*d)
	}
}

func TestCSV(t *testing.T) {
	s := scripts()["injected"].run(t)
	var b bytes.Buffer
	if err := CSV(&b, s, Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "injected.csv", b.Bytes()[:bytes.Index(b.Bytes(), []byte("\n5,"))+1])
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(s.Recent)+1 {
		t.Fatalf("%d rows for %d steps", len(rows), len(s.Recent))
	}
	col := map[string]int{}
	for i, h := range rows[0] {
		col[h] = i
	}
	ns := func(row []string, name string) int64 {
		whole, frac, _ := strings.Cut(row[col[name]], ".")
		a, err1 := strconv.ParseInt(whole, 10, 64)
		b, err2 := strconv.ParseInt(frac, 10, 64)
		if err := errors.Join(err1, err2); err != nil || len(frac) != 9 {
			t.Fatalf("%s = %q: %v", name, row[col[name]], err)
		}
		return a*1e9 + b
	}
	for _, r := range rows[1:] {
		total := ns(r, "busy_s")
		for c := range trace.NumCauses {
			total += ns(r, "stall_"+trace.Cause(c).String()+"_s")
		}
		if total != ns(r, "end_s")-ns(r, "start_s") {
			t.Fatalf("step %s: busy and causes do not add up to its wall time", r[0])
		}
	}
	last := rows[len(rows)-1]
	if last[col["loss"]] != "NaN" || last[col["knob_inject_cpu"]] != "0s" || last[col["dropped_spans"]] == "0" ||
		rows[1][col["injected"]] != "yes" || last[col["injected"]] != "no" {
		t.Errorf("last row %v", last)
	}
}

func TestChrome(t *testing.T) {
	for name, sc := range scripts() {
		s := sc.run(t)
		var b bytes.Buffer
		if err := Chrome(&b, s, Options{}); err != nil {
			t.Fatal(err)
		}
		if name == "imported" {
			golden(t, "imported.json", b.Bytes())
		}
		var doc struct {
			OtherData struct {
				Emulated     bool
				DroppedSpans int64 `json:"dropped_spans"`
				Labels       []string
			}
			TraceEvents []struct {
				Ph, Name string
				Ts, Dur  float64
				Tid      int
			}
		}
		if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		spans, steps, compute := 0, 0, 0.0
		arrows := map[string]int{}
		for _, e := range doc.TraceEvents {
			switch {
			case e.Ph == "X" && strings.HasPrefix(e.Name, "ProfilerStep#"):
				steps++
			case e.Ph == "X":
				spans++
			case e.Name == "batch":
				arrows[e.Ph]++
			}
			if e.Name == "compute" && e.Ph == "X" {
				compute += e.Dur
			}
		}
		var busy int64
		for _, sp := range s.Spans {
			if sp.Kind == trace.KindCompute {
				busy += sp.End - sp.Start
			}
		}
		if spans != len(s.Spans) || math.Abs(compute*1e3-float64(busy)) > 1+float64(busy)/1e9 {
			t.Errorf("%s: %d events for %d spans, %v µs of compute for %d ns", name, spans, len(s.Spans), compute, busy)
		}
		if arrows["s"] != arrows["f"] || int64(steps) != s.Total.Steps || steps > 10 && arrows["s"] == 0 {
			t.Errorf("%s: %d steps of %d, arrows %v", name, steps, s.Total.Steps, arrows)
		}
		if slices.Contains(doc.OtherData.Labels, "injected") != (name == "injected") ||
			doc.OtherData.Emulated != s.Meta.Emulated || doc.OtherData.DroppedSpans != s.Outcome.Dropped() {
			t.Errorf("%s: labels %+v", name, doc.OtherData)
		}
	}
}

// TestBareSnapshots: whatever is missing, a report comes out.
func TestBareSnapshots(t *testing.T) {
	nan := float32(math.NaN())
	for name, s := range map[string]*trace.Snapshot{
		"nothing":                  {},
		"a step without a segment": {Recent: []trace.Step{{Loss: nan, Correct: -1, Start: 0, End: 10, Busy: 10}}},
		"a segment without a step": {Segments: []trace.Segment{{Index: 3, Reason: "start"}}},
		"steps without a gap": {
			Segments: []trace.Segment{{}},
			Recent:   []trace.Step{{End: 5, Busy: 5, Samples: 1}, {Start: 5, End: 10, Busy: 5, Samples: 1, Index: 1}},
		},
		"steps of no duration":    {Segments: []trace.Segment{{}}, Recent: make([]trace.Step, 30)},
		"a second, empty segment": {Segments: []trace.Segment{{}, {Index: 1, Reason: "x 1 -> 2"}}, Recent: make([]trace.Step, 3)},
		"spans of unknown kinds":  {Spans: []trace.Span{{Kind: 250, Track: 255, End: 5}, {Kind: trace.KindStall, Arg: 99, End: 5}}},
		"only spans of other times": {
			Segments: []trace.Segment{{}}, Recent: []trace.Step{{Start: 0, End: 5, Busy: 5, Samples: 1}},
			Spans: []trace.Span{{Start: 50, End: 60, Kind: trace.KindCompute, Track: trace.TrackCompute}},
		},
	} {
		s.Digest = *trace.Digested(s.Recent)
		for _, f := range Formats {
			format, write := f.Name, f.Write
			var b bytes.Buffer
			err := write(&b, s, Options{Session: "x"})
			if format == "folded" { // there are no stacks to fold
				if err == nil || b.Len() > 0 {
					t.Errorf("%s as %s: %v, %d bytes", name, format, err, b.Len())
				}
				continue
			}
			if err != nil || b.Len() == 0 {
				t.Errorf("%s as %s: %v", name, format, err)
			}
			if format == "png" {
				continue
			}
			text := pictures.ReplaceAllString(b.String(), "")
			if strings.Contains(text, "waiting for a batch:\n\n\n") || strings.Contains(text, "waiting for a batch:</p>\n<p") {
				t.Errorf("%s as %s announces a list that does not come", name, format)
			}
			if strings.Contains(text, "%!") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s as %s holds a number that is none:\n%s", name, format, text)
			}
		}
	}
}

// pictures returns the pictures in a page.
var pictures = regexp.MustCompile(`src="data:image/png;base64,[^"]*"`)

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestInjectedInVain: an injection that reached no step is labelled all the same.
func TestInjectedInVain(t *testing.T) {
	s := scripts()["emulated"].run(t)
	text := func() string {
		var b strings.Builder
		if err := Markdown(&b, s, Options{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if strings.Contains(text(), "- [injected] in segment") {
		t.Error("nothing was injected")
	}
	g := &s.Segments[len(s.Segments)-1]
	g.Knobs = append(slices.Clone(g.Knobs), knob.Setting{Name: "inject_straggler", Value: "9:50ms"})
	if !strings.Contains(text(), "- [injected] in segment") {
		t.Error("not labelled")
	}
}

func TestWriteError(t *testing.T) {
	s := scripts()["emulated"].run(t)
	s.Lines = looked
	for _, f := range Formats {
		format, write := f.Name, f.Write
		if err := write(broken{}, s, Options{}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: err = %v", format, err)
		}
	}
}

func TestText(t *testing.T) {
	for got, want := range map[string]string{
		markup.ShellWord("it's"): `'it'\''s'`, markup.ShellWord("a=b"): "a=b", markup.ShellWord("my dir"): "'my dir'",
		exact(-1_000_000_001): "-1.000000001", micros(1234): "1.234",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func BenchmarkMarkdown(b *testing.B) {
	s := &trace.Snapshot{Segments: []trace.Segment{{}}}
	for i := range 100_000 {
		t := int64(i) * 1e7
		s.Recent = append(s.Recent, trace.Step{Index: int32(i), Epoch: int32(i / 1000), Start: t, End: t + 1e7, Busy: 5e6, Samples: 128})
	}
	s.Digest = *trace.Digested(s.Recent)
	for b.Loop() {
		if err := Markdown(io.Discard, s, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
