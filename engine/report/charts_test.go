package report

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/report/plot"
)

// TestCharts checks the values that are drawn against the script's own.
func TestCharts(t *testing.T) {
	a := newAccount(scripts()["tuned"].run(t))
	made := (&charts{a}).all()
	charts := map[string]*plot.Chart{}
	for _, c := range made {
		charts[c.Name] = c
	}
	for i, name := range []string{"before-after", "throughput", "epochs", "stalls", "steps", "utilisation"} {
		if charts[name] == nil {
			t.Fatalf("picture %d, %s, is missing", i, name)
		}
		if !strings.Contains(charts[name].Labels, "synthetic") {
			t.Errorf("%s is labelled %q", name, charts[name].Labels)
		}
	}
	stalls := charts["stalls"]
	for g := range stalls.Groups {
		sum := 0.0
		for i := range stalls.Bars {
			sum += stalls.Bars[i].Values[g]
		}
		if math.Abs(sum-100) > 0.5 {
			t.Errorf("the time of %q adds up to %.2f %%", stalls.Groups[g], sum)
		}
	}
	rate := charts["throughput"].Bars[0]
	if rate.Values[0] != a.rows[0].SamplesPerSecond && math.Abs(rate.Values[0]/a.rows[0].SamplesPerSecond-1) > 1e-3 {
		t.Errorf("throughput %v, measured %v", rate.Values[0], a.rows[0].SamplesPerSecond)
	}
	for i, l := range charts["steps"].Lines {
		sum := 0.0
		for j := 0; j < len(l.Points); j += 2 {
			sum += l.Points[j].Y
		}
		if sum < 98.5 || sum > 100.01 {
			t.Errorf("the histogram of line %d holds %.2f %% of the steps", i, sum)
		}
	}
	if marks := charts["utilisation"].Marks; len(marks) != len(a.s.Segments) || marks[0].Text != "A" {
		t.Errorf("marks %+v of %d segments", marks, len(a.s.Segments))
	}
}

// TestUncounted: where the number of samples is unknown, no picture shows samples a second
// or epochs.
func TestUncounted(t *testing.T) {
	s := scripts()["imported"].run(t)
	s.Meta.Samples, s.Total.Samples = 0, 0
	for i := range s.Recent {
		s.Recent[i].Samples = 0
	}
	for _, c := range (&charts{newAccount(s)}).all() {
		if c.Name == "throughput" || c.Name == "epochs" {
			t.Errorf("there is a picture %q", c.Title)
		}
	}
}

// TestPNG: every script makes a picture of 1200 pixels, also one with nothing in it.
func TestPNG(t *testing.T) {
	for name, sc := range scripts() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := PNG(&b, sc.run(t), Options{}); err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(&b)
			if err != nil || img.Bounds().Dx() != plot.Width {
				t.Errorf("%v, %v", err, img.Bounds())
			}
		})
	}
}

// TestPage: the page says what the markdown says, and holds the pictures.
func TestPage(t *testing.T) {
	s := scripts()["tuned"].run(t)
	var text, page bytes.Buffer
	if err := Markdown(&text, s, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&page, s, Options{}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if head, ok := strings.CutPrefix(line, "## "); ok && !strings.Contains(page.String(), ">"+strings.TrimSpace(head)+"</h2>") {
			t.Errorf("the page lacks the section %q", head)
		}
	}
	if n := strings.Count(page.String(), "data:image/png;base64,"); n != len((&charts{newAccount(s)}).all()) {
		t.Errorf("%d pictures in the page", n)
	}
}
