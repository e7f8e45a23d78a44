package report

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// side returns a segment of a script's session.
func side(t *testing.T, script, segment string) Side {
	return Side{Session: script + ".gps", Snapshot: scripts()[script].run(t), Segment: segment}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name   string
		a, b   Side
		answer stats.Answer
		alike  bool
	}{
		{"slower settings of one run", side(t, "tuned", ""), side(t, "tuned", "A"), stats.Different, true},
		{"itself", side(t, "tuned", ""), side(t, "tuned", ""), stats.Same, true},
		{"the baseline by its number", side(t, "tuned", "A"), side(t, "tuned", "#0"), stats.Same, true},
		{"another device", side(t, "tuned", ""), side(t, "emulated", ""), stats.Unknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Compare(c.a, c.b)
			if err != nil {
				t.Fatal(err)
			}
			if got.Throughput.Answer != c.answer || (len(got.Work) == 0) != c.alike {
				t.Errorf("the answer is %+v, of other work %v", got.Throughput, got.Work)
			}
			var b bytes.Buffer
			if err := got.Markdown(&b); err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(b.String(), "Not the same work"); warned == c.alike {
				t.Errorf("work that is alike: %v, and a warning: %v", c.alike, warned)
			}
			for _, l := range strings.Split(b.String(), "\n") {
				if strings.Contains(l, "%!") || utf8.RuneCountInString(l) > markup.Width {
					t.Errorf("bad line: %s", l)
				}
			}
			if c.name == "slower settings of one run" {
				golden(t, "compare.md", b.Bytes())
			}
		})
	}
}

// TestCompareSteps: for two profiler traces a few steps decide, and the change is the ratio of the rates
// beside it.
func TestCompareSteps(t *testing.T) {
	trace6 := func(times ...int64) Side {
		s := *side(t, "tuned", "A").Snapshot
		s.Meta.Imported, s.Meta.Profile, s.Meta.ID = "x.json", &trace.Profile{}, units.Count(len(times))
		s.Segments, s.Recent = s.Segments[:1], nil
		at := int64(0)
		for i, ms := range times {
			s.Recent = append(s.Recent, trace.Step{Index: int32(i), Start: at, End: at + ms*1e6, Busy: ms * 1e6, Correct: -1})
			at += ms * 1e6
		}
		s.Digest = *trace.Digested(s.Recent)
		return Side{Session: "x", Snapshot: &s}
	}
	for _, c := range []struct {
		name     string
		a, b     []int64
		headline string
		row      []string
	}{
		{"faster", []int64{188, 175, 180, 175, 182, 166}, []int64{182, 126, 127, 124, 126, 125}, "The throughput of B against A: +39 % (95 % interval +3 to +47 %), by 6 steps of A and 6 of B.", []string{"5.71", "7.94", "+39 %"}},
		{"not known", []int64{188, 175, 120, 175, 182, 166}, []int64{182, 170, 127, 174, 186, 165}, "The difference of B from A is not significant, by 6 steps of A and 6 of B: the 95 % interval is -10 to +10 %.", []string{"5.71", "5.88", "~+2.9 %"}},
		{"too few", []int64{188, 175, 180}, []int64{126, 127, 124}, "The change of throughput from A to B is not significant yet: 3 of 4 steps to compare with.", nil},
	} {
		got, err := Compare(trace6(c.a...), trace6(c.b...))
		if err != nil {
			t.Fatal(err)
		}
		if got.Headline() != c.headline {
			t.Errorf("%s: %s", c.name, got.Headline())
		}
		if row := got.measurements()[1]; c.row != nil && !slices.Equal(row[1:], c.row) {
			t.Errorf("%s: %q, want %q", c.name, row, c.row)
		}
	}
}

// TestCompareOneRun: for two segments of one run, the comparison says what the run's
// report says.
func TestCompareOneRun(t *testing.T) {
	for script, segment := range map[string]string{"tuned": "#1", "asked": "#4"} {
		c, err := Compare(side(t, script, "A"), side(t, script, segment))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.Comparison, c.Sides[1].Row.VsA; !reflect.DeepEqual(got, want) || (want.Pairs > 0) != (script == "asked") {
			t.Errorf("%s: %+v, and the report has %+v", script, got, want)
		}
	}
}

// TestCompareTells: where no setting differs, the comparison says that no setting changed
// the device's own time.
func TestCompareTells(t *testing.T) {
	a, b := side(t, "tuned", "A"), side(t, "tuned", "A")
	slow := scripts()["tuned"]
	for i := range slow.stretches {
		slow.stretches[i].comp *= 2
	}
	b.Snapshot = slow.run(t)
	c, err := Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if c.Busy.Answer != stats.Different || !strings.Contains(c.Told, "the device or the host changed") {
		t.Errorf("%+v is told as %q", c.Busy, c.Told)
	}
}

// TestCompareTexts: a session's texts are not changed, and show in markdown as they are.
func TestCompareTexts(t *testing.T) {
	b := side(t, "tuned", "A")
	b.Session, b.Snapshot.Meta.Dataset = "run*1*.gps", "a|b"
	c, err := Compare(side(t, "tuned", "A"), b)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Difference{"data set", "synthetic CIFAR-10", "a|b"}); c.Sides[1].Session != b.Session || len(c.Environment) == 0 || c.Environment[0] != want {
		t.Errorf("of %s: %+v", c.Sides[1].Session, c.Environment)
	}
	var text bytes.Buffer
	if err := c.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`segment A of run\*1\*.gps`, `a\|b`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("it does not say %s:\n%s", want, text.String())
		}
	}
}

// TestCompareNeighbours: where other processes used more of the cores on one side, the comparison says so.
func TestCompareNeighbours(t *testing.T) {
	beside := func(others float64) Side {
		b := side(t, "tuned", "A")
		b.Snapshot.Meta.Host = []knob.Setting{{Name: "affinity", Value: "4 cpus: 0-3"}, {Name: "threads", Value: "4"}}
		b.Snapshot.Gauges = map[string][]trace.Point{}
		for at := int64(0); at < b.Snapshot.Last.End; at += 1e7 {
			for gauge, v := range map[string]float64{trace.GaugeCPUOurs: 20, trace.GaugeCPUOthers: others} {
				b.Snapshot.Gauges[gauge] = append(b.Snapshot.Gauges[gauge], trace.Point{T: at, V: v})
			}
		}
		return b
	}
	for others, want := range map[float64]string{5: "", 75: "other processes used 2.0 % of the cores beside A, and 75.0 % beside B: part of the change may be theirs"} {
		c, err := Compare(beside(2), beside(others))
		if err != nil {
			t.Fatal(err)
		}
		if c.Neighbours != want || slices.Contains(c.Environment, Difference{"cores used by other processes", "2.0 %", "75.0 %"}) != (want != "") {
			t.Errorf("%q, %+v", c.Neighbours, c.Environment)
		}
	}
}

// TestCompareUndated: where a run has no date, the time between two runs is unknown, and no
// drift is assumed in it.
func TestCompareUndated(t *testing.T) {
	for _, undated := range []int{0, 1} {
		sides := [2]Side{side(t, "tuned", "A"), side(t, "tuned", "A")}
		sides[undated].Snapshot.Meta.Started = time.Time{}
		c, err := Compare(sides[0], sides[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Throughput.Drifted; got != 1 {
			t.Errorf("side %d has no date: %g of drift", undated, got)
		}
	}
}

func TestCompareErrors(t *testing.T) {
	for _, c := range []struct {
		b    Side
		want string
	}{
		{side(t, "empty", ""), "no finished step"},
		{side(t, "tuned", "#77"), "no segment #77"},
	} {
		if _, err := Compare(side(t, "tuned", ""), c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, not %q", err, c.want)
		}
	}
}

func TestDifferences(t *testing.T) {
	got := differences([]knob.Setting{{Name: "x", Value: "1"}, {Name: "y", Value: "1"}}, []knob.Setting{{Name: "y", Value: "1"}, {Name: "z", Value: "2"}})
	if len(got) != 2 || got[0] != (Difference{"x", "1", "-"}) || got[1] != (Difference{"z", "-", "2"}) {
		t.Errorf("%+v", got)
	}
}

// TestApart: the table does not cut off the part in which two long texts differ.
func TestApart(t *testing.T) {
	got := apart([]Difference{
		{"device", "cpu (Intel(R) Xeon(R) Processor, 2 threads, avx512)", "cpu (Intel(R) Xeon(R) Processor, 2 threads, avx512+amx)"},
		{"kernel", "6.1", "6.12"},
		{"data", "-", strings.Repeat("x", 50)},
	})
	if got[0] != (Difference{"device", "… avx512)", "… avx512+amx)"}) || got[1].A != "6.1" || got[2].A != "-" {
		t.Errorf("%+v", got)
	}
}

// TestCompareTraces: settings that a trace does not hold are not called equal.
func TestCompareTraces(t *testing.T) {
	imported := func(loader string) Side {
		s := *scripts()["tuned"].run(t)
		s.Meta.Imported, s.Meta.Profile = "trace.json", &trace.Profile{Loader: loader}
		return Side{Snapshot: &s, Segment: "A"}
	}
	const some = "_MultiProcessingDataLoaderIter"
	for _, c := range []struct {
		name, says string
		a, b       Side
	}{
		{"0 and 4 workers", "| num_workers | 0 | 1 or more | Others are not known:", imported(trace.InlineLoader), imported(some)},
		{"2 and 4 workers", "Not known: of its settings a trace tells", imported(some), imported(some)},
		{"no DataLoader in one", "Not known: of its settings", imported(""), imported(some)},
		{"with a session of workers", "Not known: of its settings", imported(some), side(t, "tuned", "#1")},
		{"inline with such a session", "| num_workers | 0 | 1 or more |", imported(trace.InlineLoader), side(t, "tuned", "#1")},
		{"two sessions", "## Settings that differ None.", side(t, "tuned", "A"), side(t, "tuned", "A")},
	} {
		got, err := Compare(c.a, c.b)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := got.Markdown(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(strings.NewReplacer("-----------", "", "---", "").Replace(b.String())), " ")
		if !strings.Contains(text, c.says) || got.Traces != (c.name != "two sessions") {
			t.Errorf("%s: no %q in:\n%s", c.name, c.says, b.String())
		}
	}
}
