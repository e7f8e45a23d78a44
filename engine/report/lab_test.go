package report

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// TestLab makes labs of one session that was changed, of two, of one in which nothing was changed, and of
// one whose tune kept nothing.
func TestLab(t *testing.T) {
	alone := scripts()["tuned"]
	alone.stretches = alone.stretches[:1]
	unchanged := Side{Session: "alone.gps", Snapshot: alone.run(t)}
	tuned := Side{Session: "tuned.gps", Snapshot: alone.run(t)}
	of := trace.Block{Steps: 100, Samples: 10_000, Active: 1e9, Busy: 5e8}
	tuned.Snapshot.Experiments = []trace.Experiment{{
		Kind: trace.Tune, Start: 1e9, End: 2e9, First: 1, Why: trace.RunEnded,
		Decisions: []trace.Decision{{Knobs: []knob.Setting{{Name: "num_workers", Value: "4"}}, Segment: 1, Before: of, After: of, Verdict: trace.Best}},
	}}
	proved := Side{Session: "proved.gps", Snapshot: alone.run(t)}
	proved.Snapshot.Experiments = slices.Clone(tuned.Snapshot.Experiments)
	proved.Snapshot.Experiments[0].Why = ""
	for _, c := range []struct {
		name  string
		sides []Side
		says  []string
	}{
		{"one", []Side{side(t, "tuned", "")}, []string{
			"Epoch time: 746 ms before, 480 ms after, ~-36 %", "## The problem", "waiting: transform", "## The strategy", "num_workers 0 -> 4",
			"## The validation", "**Throughput +54 %; 95 % confidence interval", "num_workers=4)", "(<throughput.png>)"}},
		{"two", []Side{unchanged, side(t, "tuned", "")}, []string{
			"## The problem", "**num_workers 0 -> 4**", "the step loop loads each batch itself", "**Throughput +54 %; 95 % confidence interval", "## What else differs", "(<after-throughput.png>)"}},
		{"unchanged", []Side{unchanged}, []string{
			"Nothing was changed, so there is no result yet.", "There is nothing to compare"}},
		{"tuned", []Side{tuned}, []string{"Nothing was kept, so there is no result yet: ", "What the tune tried", "num_workers=4", "Let the training run longer"}},
		{"tuned to its end", []Side{proved}, []string{"Nothing was kept: ", "What the tune tried", "num_workers=4"}},
		{"empty", []Side{side(t, "empty", "")}, []string{"there is nothing to report"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := NewLab(c.sides...)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			err = l.Write(func(name string, content func(io.Writer) error) error {
				var b bytes.Buffer
				defer func() { files[name] = b.String() }()
				return content(&b)
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(files[LabReport], want) {
					t.Errorf("the report lacks %q", want)
				}
			}
			if c.name == "tuned to its end" && strings.Contains(files[LabReport], "run longer") {
				t.Error("a tune that came to its end would need a longer run")
			}
			for _, l := range strings.Split(files[LabReport], "\n") {
				if strings.Contains(l, "%!") || strings.HasPrefix(l, "|") && len([]rune(l)) > markup.Width {
					t.Errorf("bad line: %s", l)
				}
				if _, file, ok := strings.Cut(l, "](<"); ok && files[strings.TrimSuffix(file, ">)")] == "" {
					t.Errorf("there is no picture for %s", l)
				}
			}
			rows, err := csv.NewReader(strings.NewReader(files[LabResults])).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			segments := 0
			for _, s := range c.sides {
				segments += len(newAccount(s.Snapshot).rows)
				for _, x := range s.Snapshot.Experiments {
					segments += len(x.Decisions)
				}
			}
			if len(rows) != segments+1 {
				t.Errorf("%d rows of results for %d segments", len(rows)-1, segments)
			}
			if c.name != "empty" && !slices.ContainsFunc(rows, func(r []string) bool { return r[14] == "yes" }) {
				t.Error("no settings are marked as kept")
			}
			if c.name == "one" {
				golden(t, "lab.md", []byte(files[LabReport]))
				golden(t, "lab.csv", []byte(files[LabResults]))
			}
		})
	}
}
