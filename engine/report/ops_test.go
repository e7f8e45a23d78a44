package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// timedSession is a run with two settings, of 40 steps each. Every eighth step was
// timed. A step takes 10 ms in fp32 and 6 ms in bf16, and 1 ms more if timed. It
// computes for all but 1 ms of that.
func timedSession(t *testing.T) *trace.Snapshot {
	t.Helper()
	s := &trace.Snapshot{
		Meta: trace.Meta{ID: "timed", Model: "resnet18", Device: "emulated H100", DeviceKind: "emu", Emulated: true, Dataset: "synthetic"},
		Segments: []trace.Segment{
			{
				Index: 0, End: 399e6,
				Knobs: []knob.Setting{
					{Name: "precision", Value: "fp32"}, {Name: "batch_size", Value: "64"}, {Name: "capture", Value: "on"},
					{Name: "time_ops", Value: "sampled"},
				},
				Reason: "start",
			},
			{
				Index: 1, Start: 400e6, FirstStep: 40,
				Knobs: []knob.Setting{
					{Name: "precision", Value: "bf16"}, {Name: "batch_size", Value: "64"}, {Name: "capture", Value: "on"},
					{Name: "time_ops", Value: "sampled"},
				},
				Reason: "precision fp32 -> bf16",
			},
		},
		Gauges: map[string][]trace.Point{
			trace.GaugePeakBytes:    {{T: 0, V: 100 << 20}, {T: 500e6, V: 140 << 20}},
			trace.GaugeHeldBytes:    {{T: 0, V: 90 << 20}, {T: 399.5e6, V: 120 << 20}, {T: 450e6, V: 130 << 20}},
			trace.GaugePlannedBytes: {{T: 0, V: 95 << 20}, {T: 399.5e6, V: 135 << 20}},
			trace.GaugeLossScale:    {{T: 1, V: 65536}, {T: 2, V: 32768}},
			trace.GaugeSkippedSteps: {{T: 2, V: 1}},
			trace.GaugeLastOverflow: {{T: 2, V: 17}},
		},
	}
	at := int64(0)
	for i := range 80 {
		st := trace.Step{
			Index: int32(i), Batch: int32(i), Segment: int32(i / 40), Samples: 64, Correct: -1, Loss: float32(math.NaN()),
			Start: at, Copy: 1e6, Bytes: 8e6,
		}
		d := int64(10e6)
		if i >= 40 {
			d = 6e6
		}
		if i%8 == 3 {
			st.Flags |= trace.FlagTimed
			d += 1e6
		}
		st.Busy, st.Stall[trace.CauseLaunch] = d-1e6, 1e6
		at += d
		st.End = at
		s.Recent = append(s.Recent, st)
	}
	s.Digest = *trace.Digested(s.Recent)
	s.Now, s.Outcome = at, trace.Outcome{Ended: at, Status: "finished", PeakBytes: 140 << 20}
	op := func(segment int32, name, layer, phase, variant string, ms, flops, bytes float64) {
		ns := int64(ms * 1e6)
		s.Ops = append(s.Ops, trace.OpTime{ID: uint32(len(s.Ops)), Segment: segment, Name: name, Layer: layer, Phase: phase, Variant: variant,
			Calls: 5, Total: 5 * ns, Min: ns - 1000, Max: ns + 1000, FLOPs: 5 * flops, Bytes: 5 * bytes})
	}
	op(0, "conv_forward", "conv1", "forward", "simt_64x64", 3, 6e10, 3e8)
	op(0, "conv_backward_data", "conv1", "backward", "simt_64x64", 4, 6e10, 3e8)
	op(0, "batchnorm_forward", "bn1", "forward", "", 2, 1e8, 2e9)
	op(0, "sgd", "optimizer", "optimizer", "", 1, 1e6, 1e9)
	op(1, "conv_forward", "conv1", "forward", "mma_128x128", 1, 6e10, 1.5e8)
	op(1, "conv_backward_data", "conv1", "backward", "mma_128x64", 2, 6e10, 1.5e8)
	op(1, "batchnorm_forward", "bn1", "forward", "", 2, 1e8, 1e9)
	op(1, "sgd", "optimizer", "optimizer", "", 1, 1e6, 1e9)
	for i := range 4 {
		s.Spans = append(s.Spans, trace.Span{
			Start: int64(30e6 + i*1e6), End: int64(31e6 + i*1e6), Step: 3, Batch: 3, Kind: trace.KindOp, Track: trace.TrackOps,
			Flags: trace.FlagTimed, Arg: uint32(i),
		})
	}
	return s
}

// stored returns the session as its file gives it back.
func stored(t *testing.T, s *trace.Snapshot) *trace.Snapshot {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timed"+store.Ext)
	if err := store.Save(path, trace.Restore(s)); err != nil {
		t.Fatal(err)
	}
	back, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return back.Snapshot(0, math.MaxInt64)
}

func TestOperations(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, stored(t, timedSession(t)), Options{Session: "timed"}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	from := strings.Index(text, "## Appendix E")
	if from < 0 {
		t.Fatalf("no section:\n%s", text)
	}
	golden(t, "ops.md", []byte(text[from:]))
}

// TestOpShares: the shares in the table follow from the times.
func TestOpShares(t *testing.T) {
	s := timedSession(t)
	a, b := attribution.Ops(s, s.Segments[0]), attribution.Ops(s, s.Segments[1])
	if a.Timed != 5 || a.Steps != 40 || len(a.Rows) != 4 {
		t.Fatalf("%d of %d steps, %d rows", a.Timed, a.Steps, len(a.Rows))
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-9*math.Abs(want)) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("extra", a.Extra, 0.1)
	near("cost", a.Cost(), 0.1*5/40)
	near("the convolution's share of the ops", a.Rows[0].Share, 0.3)
	near("its share of the step", a.Rows[0].Step, 3.0/11)
	near("its TFLOP/s", a.Rows[0].TFLOPs(), 20)
	near("its GB/s", a.Rows[0].GBs(), 100)
	near("the share of the copies", a.CopyShare, 40.0/405)
	kinds := attribution.CompareOps(&a, &b, attribution.ByKind)
	near("the convolution's ratio", kinds[0].Ratio(&a, &b), 1.0/3)
	if p := a.Group(attribution.ByPhase); len(p) != 3 || p[0].Ops != 2 || p[0].Total != 25e6 || p[0].Layer != "" || p[0].Phase != "forward" {
		t.Errorf("by phase: %+v", p)
	}
	b.Samples *= 2 // a step of twice the samples in the same time is twice as fast
	near("the ratio at twice the batch", kinds[0].Ratio(&a, &b), 1.0/6)
}

func TestOpsCSV(t *testing.T) {
	s := stored(t, timedSession(t))
	var b bytes.Buffer
	if err := CSV(&b, s, Options{Table: "ops"}); err != nil {
		t.Fatal(err)
	}
	golden(t, "ops.csv", b.Bytes())
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 9 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	shares := map[string]float64{}
	for _, r := range rows[1:] {
		v, err := strconv.ParseFloat(r[10], 64)
		if err != nil || rows[0][10] != "share" {
			t.Fatal(rows[0][10], err)
		}
		shares[r[0]] += v
	}
	for seg, sum := range shares {
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("the shares of segment %s add up to %v", seg, sum)
		}
	}
}

// TestOpsCSVLabels: a row says whether its segment is injected, emulated or synthetic.
func TestOpsCSVLabels(t *testing.T) {
	s := timedSession(t)
	s.Meta.Emulated, s.Meta.Synthetic = false, true
	s.Segments[1].Knobs = append(slices.Clone(s.Segments[1].Knobs), knob.Setting{Name: "inject_read", Value: "5ms"})
	read := func() [][]string {
		t.Helper()
		var b bytes.Buffer
		if err := CSV(&b, s, Options{Table: "ops"}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	check := func(injected map[string]string) {
		t.Helper()
		rows := read()
		at := func(row []string, name string) string { return row[slices.Index(rows[0], name)] }
		for _, r := range rows[1:] {
			if at(r, "synthetic") != "yes" || at(r, "emulated") != "no" || at(r, "injected") != injected[at(r, "segment")] {
				t.Errorf("%v\n%v", rows[0], r)
			}
		}
	}
	check(map[string]string{"0": "no", "1": "yes"})
	for i := range s.Recent { // what was built under another segment's injection
		if s.Recent[i].Segment == 0 {
			s.Recent[i].Flags |= trace.FlagInjected
			break
		}
	}
	s.Digest = *trace.Digested(s.Recent)
	check(map[string]string{"0": "yes", "1": "yes"})
}

// TestOpSpans: the ops of timed steps are events of their own lane, by name.
func TestOpSpans(t *testing.T) {
	var b bytes.Buffer
	if err := Chrome(&b, stored(t, timedSession(t)), Options{}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []struct {
			Ph, Name string
			Tid      int
			Args     struct {
				Layer string
				Timed bool
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	ops := 0
	for _, e := range doc.TraceEvents {
		if e.Ph == "X" && e.Tid == int(trace.TrackOps) {
			if ops++; !e.Args.Timed || e.Args.Layer == "" {
				t.Errorf("%+v", e)
			}
		}
	}
	if ops != 4 {
		t.Errorf("%d ops", ops)
	}
}
