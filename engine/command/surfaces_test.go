package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/trace/store"
)

// TestOneNumber: the summary, its JSON, the report and doctor tell the same verdict, advice, rates and
// shares of a recorded session. A gain is the ratio of the two rates beside it, unless it says that a
// drift was taken out.
func TestOneNumber(t *testing.T) {
	dir := t.TempDir()
	unpackSessions(t, dir)
	flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	compared := 0
	for _, name := range guarded {
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
		a := 0.0
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
			if off > math.Log(1.02) && !strings.Contains(surfaces["report"], "drift") {
				t.Errorf("%s: %s is told as %.3f times A's rate; the rates are %.1f and %.1f", name, row.Name, *row.VsA.Ratio, *row.Rate, a)
			}
		}
	}
	if compared == 0 {
		t.Error("no session compares two settings")
	}
}
