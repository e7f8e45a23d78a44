package torch

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dev.gpustall/engine/trace"
)

func tableOf(t *testing.T, events ...string) []trace.OpTime {
	t.Helper()
	s, err := Import(context.Background(), strings.NewReader(`{"traceEvents":[`+strings.Join(events, ",")+`]}`), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Ops { // numbers of their own, which a session tells them apart by
		if s.Ops[i].ID != uint32(i+1) {
			t.Errorf("row %d has the number %d", i, s.Ops[i].ID)
		}
		s.Ops[i].ID = 0
	}
	return s.Ops
}

// TestOperatorsOnHost: an operator's time leaves out the operators that it calls, its phase
// follows from the ranges around it, and nothing outside of steps counts.
func TestOperatorsOnHost(t *testing.T) {
	got := tableOf(t,
		x("user_annotation", "ProfilerStep#1", "0", "100", ""),
		x("cpu_op", "aten::linear", "10", "30", `"External id":1`), x("cpu_op", "aten::addmm", "15", "20", `"External id":2`),
		x("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", "50", "20", ""), x("cpu_op", "aten::mm", "52", "8", ""),
		x("user_annotation", "Optimizer.step#SGD.step", "80", "15", ""), x("cpu_op", "aten::add_", "82", "3", ""), x("cpu_op", "aten::add_", "90", "1", ""),
		x("cpu_op", "aten::copy_", "200", "9", ""))
	us := func(name, phase string, calls, total, least, most int64) trace.OpTime {
		return trace.OpTime{Name: name, Phase: phase, Calls: calls, Total: total * 1000, Min: least * 1000, Max: most * 1000}
	}
	want := []trace.OpTime{
		us("aten::addmm", "", 1, 20, 20, 20), us("autograd::engine::evaluate_function: AddmmBackward0", "backward", 1, 12, 12, 12),
		us("aten::linear", "", 1, 10, 10, 10), us("aten::mm", "backward", 1, 8, 8, 8), us("aten::add_", "optimizer", 2, 4, 1, 3),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEscapes: JSON's escapes in names are decoded, whether the lexer's buffer cuts them or not.
func TestEscapes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`mod\u00e8le \u003c4\u003E\t\"a\"\\\/`, "modèle <4>\t\"a\"\\/"},
		{`\ud83d\ude00!`, "��!"},
	} {
		for _, before := range []int{0, 1<<16 - 120, 1<<16 - 97} {
			event := strings.Replace(x("cpu_op", "NAME", "10", "20", ""), "NAME", c.text, 1)
			if got := tableOf(t, strings.Repeat(" ", before)+event)[0].Name; got != c.want {
				t.Errorf("%s is %q, want %q", c.text, got, c.want)
			}
		}
	}
	if _, err := Import(context.Background(), strings.NewReader(`{"traceEvents":[{"name":"\u00g0"}]}`), "x.json"); err == nil || !strings.Contains(err.Error(), "hexadecimal") {
		t.Error(err)
	}
}

// TestOperatorsOnDevice: in a real trace of a GPU, the rows hold all that the steps
// launched.
func TestOperatorsOnDevice(t *testing.T) {
	f, err := os.Open("testdata/resnet50_num_workers_4.pt.trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rec, err := load(context.Background(), f, "x")
	if err != nil {
		t.Fatal(err)
	}
	_, steps := rec.session("x")
	var want, got, convolutions int64
	for i := range rec.device {
		if d := &rec.device[i]; d.matched {
			want += d.length()
		}
	}
	for _, r := range rec.table(steps) {
		got += r.Total
		if strings.Contains(r.Name, "onvolution") && r.Variant != "" {
			convolutions += r.Total
		}
	}
	if got != want || got == 0 || convolutions < got/4 {
		t.Errorf("the rows have %d ns, %d of convolutions' kernels; the device ran %d ns", got, convolutions, want)
	}
}
