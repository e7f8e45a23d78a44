package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	dto "github.com/prometheus/client_model/go"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is a session of 60 steps of 20 ms. In each, the device computed for 5 ms and waited
// for a transform for 15 ms.
type session struct{}

func (session) Snapshot(int64, int64) *trace.Snapshot {
	s := trace.NewSession(trace.Meta{
		ID: "s", Version: "v", Device: "NVIDIA H200", DeviceKind: "cuda", Model: "train",
		Host: []knob.Setting{{Name: trace.JobRank, Value: "3"}, {Name: trace.JobNode, Value: "gpu7"}},
	})
	const ms = 1_000_000
	var steps []trace.Step
	for i := range int64(60) {
		st := trace.Step{Index: int32(i), Samples: 32, Start: 20 * i * ms, End: 20 * (i + 1) * ms, Busy: 5 * ms}
		st.Stall[trace.CauseTransform] = 15 * ms
		steps = append(steps, st)
	}
	v := s.Snapshot(0, 0)
	v.Recent = steps
	for i := range steps {
		v.Total.Add(&steps[i])
	}
	v.Segments = []trace.Segment{{Index: 2, Knobs: []knob.Setting{{Name: "num_workers", Value: "8"}, {Name: "pin_memory", Value: "on"}, {Name: "optimizer", Value: "sgd"}}}}
	v.Gauges = map[string][]trace.Point{"host_idle": {{T: 1, V: 12.5}}, "rank_1_steps": {{V: 9}}, "rank_3_steps": {{V: 60}}, "rank_4_steps": {{V: 59}}}
	v.Peers = []trace.Peer{{Rank: 1, Node: "gpu6"}, {Rank: 4, Node: "gpu7"}}
	return v
}

// read parses what Prometheus would read, by its own parser.
func read(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return families
}

// check compares the numbers with the session's.
func check(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	sum := 0.0
	for _, c := range []struct {
		name, label, value string
		want               float64
	}{
		{"steps_total", "", "", 60}, {"samples_total", "", "", 1920}, {"time_seconds_total", "cause", "computing", 0.3},
		{"time_seconds_total", "cause", "transform", 0.9}, {"device_utilisation_ratio", "", "", 0.25}, {"data_wait_ratio", "", "", 0.75},
		{"step_seconds", "", "", 0.02}, {"samples_per_second", "", "", 1600}, {"segment", "", "", 2}, {"knob", "knob", "num_workers", 8},
		{"knob", "knob", "pin_memory", 1}, {"reading", "gauge", "host_idle", 12.5}, {"info", "device", "NVIDIA H200", 1},
	} {
		f := families["gpustall_"+c.name]
		if f == nil {
			t.Errorf("there is no gpustall_%s", c.name)
			continue
		}
		found := false
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["rank"] != "3" || labels["node"] != "gpu7" || labels["session"] != "s" {
				t.Errorf("%s has the labels %v", c.name, labels)
			}
			if labels[c.label] == c.value {
				found = true
				if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); math.Abs(got-c.want) > 1e-9 {
					t.Errorf("%s %s: %v, want %v", c.name, c.value, got, c.want)
				}
			}
		}
		if !found {
			t.Errorf("%s has no %s=%s", c.name, c.label, c.value)
		}
	}
	for _, m := range families["gpustall_time_seconds_total"].Metric {
		sum += m.GetCounter().GetValue()
	}
	if math.Abs(sum-1.2) > 1e-9 {
		t.Errorf("the causes add up to %v s of 1.2", sum)
	}
	var ranks []string
	for _, m := range families["gpustall_rank_steps_total"].Metric {
		for _, l := range m.Label {
			if l.GetName() == "rank" {
				ranks = append(ranks, fmt.Sprint(l.GetValue(), ": ", m.GetCounter().GetValue()))
			}
		}
	}
	if want := []string{"3: 60", "4: 59"}; !slices.Equal(ranks, want) { // rank 1's gpustall exports that one
		t.Errorf("the ranks' steps are %q, want %q", ranks, want)
	}
	if n := len(families["gpustall_reading"].Metric) + len(families["gpustall_knob"].Metric); n != 3 {
		t.Errorf("%d gauges and knobs, want 3", n)
	}
}

func TestPort(t *testing.T) {
	e, err := Start(":0", session{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(e.Where, "http://127.0.0.1:") {
		t.Errorf("it listens at %s", e.Where)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, e.Where, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	check(t, read(t, string(text)))
	taken := strings.TrimSuffix(strings.TrimPrefix(e.Where, "http://"), "/metrics")
	if _, err := Start(taken, session{}, nil); err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("a port that is taken: %v", err)
	}
	e.Stop()
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpustall.prom")
	e, err := Start(path, session{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "at the end"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		check(t, read(t, string(text)))
		if when == "at once" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			e.Stop()
		}
	}
	if _, err := Start(filepath.Join(t.TempDir(), "no", "x.prom"), session{}, nil); err == nil {
		t.Error("a folder that is not there is accepted")
	}
}

var update = flag.Bool("update", false, "write the table of docs/reference/metrics.md")

// TestPage: docs/reference/metrics.md has each metric, and the board for Grafana asks for no other.
func TestPage(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(&collector{of: session{}}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	table, known := "| metric | is a | labels | what it is |\n|---|---|---|---|\n", map[string]bool{}
	for _, f := range families {
		var labels []string
		for _, l := range f.Metric[0].Label {
			if !slices.Contains([]string{"session", "rank", "node"}, l.GetName()) {
				labels = append(labels, "`"+l.GetName()+"`")
			}
		}
		known[f.GetName()] = true
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "), f.GetHelp())
	}
	const path, begin, end = "../../../docs/reference/metrics.md", "-run TestPage -update -->\n", "<!-- to here -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	want := before + begin + table + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !found || want != string(text) {
		t.Errorf("%s does not have\n%s", path, table)
	}
	board, err := os.ReadFile("../../../packaging/grafana.json")
	if err != nil || !json.Valid(board) {
		t.Fatalf("the board: %v", err)
	}
	for _, name := range regexp.MustCompile(`gpustall_\w+`).FindAllString(string(board), -1) {
		if !known[name] {
			t.Errorf("the board asks for %s, which there is not", name)
		}
	}
}

func TestAddress(t *testing.T) {
	for to, want := range map[string]string{
		":9400": "127.0.0.1:9400", "0.0.0.0:9400": "0.0.0.0:9400", "[::]:9400": "[::]:9400", "gpu7:0": "gpu7:0", "gpustall.prom": "", "/run/a:b": "",
		":http": "", "/x:9400": "", ":99999": "", "9400": "",
	} {
		if got, ok := Address(to); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", to, got, ok)
		}
	}
}
