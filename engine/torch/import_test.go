package torch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// expected are the cells of PyTorch's own TensorBoard plugin for two real traces.
type expected struct {
	Steps       map[string][]int64
	Average     []int64
	Utilisation float64 `json:"gpu_utilization_percent"`
	Efficiency  float64 `json:"est_sm_efficiency_percent"`
	Occupancy   float64 `json:"est_achieved_occupancy_percent"`
	Share       float64 `json:"dataloader_share_percent"`
}

func open(t testing.TB, path string) *trace.Snapshot {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Import(context.Background(), f, filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCells compares every cell of the plugin's step breakdown: times within 1 us and
// percentages within 0.01.
func TestCells(t *testing.T) {
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{0, 4} {
		name := fmt.Sprintf("resnet50_num_workers_%d.pt.trace.json.gz", workers)
		t.Run(name, func(t *testing.T) {
			var want expected
			if err := json.Unmarshal(file[name], &want); err != nil {
				t.Fatal(err)
			}
			s := open(t, "testdata/"+name)
			p := s.Meta.Profile
			if len(p.Steps) != len(want.Steps) || int(p.Count) != len(want.Steps) || len(want.Steps) != 6 {
				t.Fatalf("%d steps, want %d", len(p.Steps), len(want.Steps))
			}
			for _, step := range p.Steps {
				cells(t, &step, 1, want.Steps[step.Name])
			}
			cells(t, &p.Total, float64(p.Count), want.Average)
			if len(p.GPUs) != 1 {
				t.Fatalf("%d GPUs, want 1", len(p.GPUs))
			}
			g := &p.GPUs[0]
			for what, pair := range map[string][2]float64{
				"utilisation": {g.Utilisation, want.Utilisation}, "efficiency": {*g.Efficiency, want.Efficiency},
				"occupancy": {*g.Occupancy, want.Occupancy}, "share": {p.Share(trace.RoleDataLoader), want.Share},
			} {
				if got := 100 * pair[0]; !(math.Abs(got-pair[1]) <= 0.01) {
					t.Errorf("%s is %.3f %%, want %.2f", what, got, pair[1])
				}
			}
			exact(t, s)
		})
	}
}

// cells compares a row, or the mean of n.
func cells(t *testing.T, s *trace.ProfiledStep, n float64, want []int64) {
	t.Helper()
	if len(want) != int(trace.NumRoles)+1 {
		t.Fatalf("%s: %d columns are expected", s.Name, len(want))
	}
	for role, us := range want[:trace.NumRoles] {
		if got := float64(s.Roles[role]) / n / 1000; math.Abs(got-float64(us)) > 1 {
			t.Errorf("%s %s is %.3f us, want %d", s.Name, trace.Role(role), got, us)
		}
	}
	if got := float64(s.Length) / n / 1000; math.Abs(got-float64(want[trace.NumRoles])) > 1 {
		t.Errorf("%s takes %.3f us, want %d", s.Name, got, want[trace.NumRoles])
	}
}

// exact checks what holds of every session: busy time and causes add up, steps rise and
// do not overlap, and nothing is invented that the trace does not tell.
func exact(t testing.TB, s *trace.Snapshot) {
	t.Helper()
	before, last := int64(0), int32(-1)
	for i := range s.Recent {
		st := &s.Recent[i]
		sum := st.Busy
		for _, ns := range st.Stall {
			sum += ns
		}
		if sum != st.End-st.Start || st.Busy < 0 {
			t.Errorf("step %d: busy and causes are %d ns of %d", st.Index, sum, st.End-st.Start)
		}
		if st.Start < before || st.Index <= last {
			t.Errorf("step %d begins at %d, the one before ended at %d", st.Index, st.Start, before)
		}
		if st.Samples != 0 || st.Load != 0 || st.Work.Measured() || st.Correct != -1 {
			t.Errorf("step %d tells what no trace does: %+v", st.Index, st)
		}
		before, last = st.End, st.Index
	}
	for _, sp := range s.Spans {
		if sp.End < sp.Start || sp.Start < 0 || sp.End > s.Now {
			t.Fatalf("a span from %d to %d of %d ns", sp.Start, sp.End, s.Now)
		}
	}
}

// TestBroken: whatever is wrong with a trace is one error that says what, and what to do.
func TestBroken(t *testing.T) {
	good := `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":10}]}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(good))
	_ = z.Close()
	for _, c := range []struct{ name, input, reason string }{
		{"empty", "", "there is nothing in it"},
		{"no JSON", "PK\x03\x04", "where a trace begins"},
		{"no events", `{"a":1}`, "no list traceEvents"},
		{"no step", `{"traceEvents":[{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","ts":1,"dur":10}]}`, "it holds no step, operator or kernel"},
		{"of JAX", `{"traceEvents":[{"ph":"X","name":"fusion_1","ts":1,"dur":10},{"ph":"X","name":"fusion_2","ts":1,"dur":10}]}`, "its 2 events are no step"},
		{"cut", good[:len(good)-20], "it ends too soon"},
		{"cut in a string", good[:30], "it ends too soon"},
		{"cut gzip", packed.String()[:packed.Len()-12], "it ends too soon"},
		{"more behind gzip", packed.String() + "{}", "its compression is damaged"},
		{"a second member that is cut", packed.String() + packed.String()[:5], "it ends too soon"},
		{"two traces in two members", packed.String() + packed.String(), "behind its end"},
		{"damaged gzip", packed.String()[:12] + "\xff\xff\xff\xff" + packed.String()[16:], "its compression is damaged"},
		{"no comma", `{"traceEvents":[{"ph":"X" "cat":"x"}]}`, "where a comma"},
		{"no colon", `{"traceEvents":[{"ph""X"}]}`, "where a colon"},
		{"deep", `{"traceEvents":[{"args":{"x":` + strings.Repeat("[", 1<<20), "more than 64 deep"},
		{"long word", `{"traceEvents":[{"ts":` + strings.Repeat("9", 1<<20), "longer than any"},
		{"halves", `{"traceEvents":[{"ph":"B","cat":"cpu_op","name":"ProfilerStep#1","ts":1},{"ph":"E","ts":2}]}`, "ph B and E"},
		{"more behind", good + "{}", "behind its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Import(context.Background(), strings.NewReader(c.input), "x.json")
			f, ok := errs.As(err)
			if !ok || f.Op != "import" || f.Object != "x.json" || f.Hint == "" {
				t.Fatalf("the error is %#v", err)
			}
			if !strings.Contains(f.Reason, c.reason) || strings.Contains(f.Reason, f.Hint) {
				t.Errorf("the reason is %q, want %q", f.Reason, c.reason)
			}
		})
	}
	if _, err := Import(context.Background(), &packed, "x.json.gz"); err != nil {
		t.Errorf("the whole one: %v", err)
	}
	if _, err := Import(context.Background(), strings.NewReader("\ufeff"+good), "x.json"); err != nil {
		t.Errorf("behind a byte order mark: %v", err)
	}
}

// TestMembers: a file of gzip may be of several members, as parallel compressors write, and be
// filled up with zeros.
func TestMembers(t *testing.T) {
	const good = `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":10}]}`
	member := func(text string) string {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return packed.String()
	}
	zeros := strings.Repeat("\x00", 100_000)
	for name, packed := range map[string]string{
		"one": member(good), "zeros": member(good) + zeros, "two": member(good[:40]) + member(good[40:]),
		"zeros between": member(good[:40]) + zeros + member(good[40:]) + "\x00", "empty ones": strings.Repeat(member(""), 200) + member(good) + member(""),
	} {
		if s, err := Import(context.Background(), strings.NewReader(packed), name); err != nil || len(s.Recent) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBomb(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"traceEvents":["`))
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 200 {
		_, _ = z.Write(spaces)
	}
	_ = z.Close()
	_, err := Import(context.Background(), &packed, "bomb.gz")
	if err == nil || !strings.Contains(err.Error(), "as no trace does") {
		t.Errorf("a bomb is told as %v", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Import(ctx, strings.NewReader("{}"), "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
