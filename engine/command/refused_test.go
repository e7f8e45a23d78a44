package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
	"dev.gpustall/loader/transform"
)

// dots is a data set in memory. It calls ask before its n-th read, counted from 0.
type dots struct {
	reads *int
	ask   func(n int)
}

func (d dots) Info() loader.Info {
	return loader.Info{Name: "dots", Format: "memory", Samples: 512, H: 32, W: 32, C: 3, Classes: []string{"a", "b"}, Synthetic: true}
}

func (d dots) Read(_ context.Context, s *loader.Sample) error {
	d.ask(*d.reads)
	*d.reads++
	s.Label = int32(s.Index % 2)
	return nil
}

func (d dots) Decode(s *loader.Sample) error {
	rng := loader.NewRNG(5, 0, s.Index)
	s.H, s.W, s.C = 32, 32, 3
	s.Pixels = s.Pixels[:0]
	for range 32 * 32 * 3 {
		s.Pixels = append(s.Pixels, byte(100*int(s.Label)+rng.IntN(120)))
	}
	return nil
}

func (dots) Close() error { return nil }

// little is a device without room for large batches.
type little struct {
	device.Device
	most int // the largest allocation in bytes
}

func (d little) Alloc(n int) (device.Buffer, error) {
	if n > d.most {
		return device.Buffer{}, fmt.Errorf("allocate %d bytes: %w; lower batch_size", n, device.ErrOutOfMemory)
	}
	return d.Device.Alloc(n)
}

// lossesOf trains 16 batches of 8, four for each optimizer step. It requests changes before batch
// number at is read.
func lossesOf(t *testing.T, at int, changes []knob.Setting) (losses []float32, s *trace.Snapshot, refused error) {
	t.Helper()
	const batch = 8
	c, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	dev := little{c, 64 << 20}
	var e *train.Engine
	data := dots{reads: new(int), ask: func(n int) {
		if n == at*batch && changes != nil {
			refused = e.Set(changes)
		}
	}}
	k := train.DefaultKnobs()
	k.Loader.BatchSize, k.Accumulate = batch, 4
	info := data.Info()
	m, err := nn.New("cnn", nn.Shape{H: info.H, W: info.W, C: info.C}, len(info.Classes))
	if err != nil {
		t.Fatal(err)
	}
	rec := trace.NewRecorder(trace.NewClock(), 0)
	e, err = train.New(train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Device: dev, Recorder: rec, Dataset: data, Transform: transform.CIFARTrain(), Steps: 16,
		Recipe: m.Recipe(k.Loader.BatchSize), Knobs: k,
	})
	if err != nil {
		t.Fatal(err)
	}
	session := trace.NewSession(trace.Meta{Samples: int64(info.Samples)})
	col := trace.NewCollector(rec, session, attribution.NewAnalyzer(rec.Now()), nil)
	col.Start()
	if err := errors.Join(e.Run(context.Background()), e.Close(), col.Stop(trace.Outcome{Status: "finished"}), dev.Close()); err != nil {
		t.Fatal(err)
	}
	s = session.Snapshot(0, 1<<62)
	for i := range s.Recent {
		losses = append(losses, s.Recent[i].Loss)
	}
	return losses, s, refused
}

// TestRefusedWhileAccumulating: a change that is refused while gradients are accumulated has no
// effect. The losses are those of a run without a request.
func TestRefusedWhileAccumulating(t *testing.T) {
	want, _, _ := lossesOf(t, 0, nil)
	if len(want) != 16 || want[0] == want[15] || math.IsNaN(float64(want[15])) {
		t.Fatalf("the run to compare with has the losses %v", want)
	}
	big := knob.Setting{Name: "batch_size", Value: "512"} // the data allows it, the device does not
	for _, tt := range []struct {
		name    string
		at      int // the batch within an optimizer step; 0 is its beginning
		changes []knob.Setting
		asked   bool // Set accepts it, and the device refuses it later
	}{
		{"by its value", 6, []knob.Setting{{Name: "batch_size", Value: "0"}}, false},
		{"by another knob", 6, []knob.Setting{{Name: "num_workers", Value: "0"}, {Name: "prefetch_factor", Value: "2"}}, false},
		{"by its name", 5, []knob.Setting{{Name: "gradient_accumulation", Value: "2"}, {Name: "nonsense", Value: "1"}}, false},
		{"by the device, in the middle", 6, []knob.Setting{big}, true},
		{"by the device, at the last", 7, []knob.Setting{big}, true},
		{"by the device, at the boundary", 8, []knob.Setting{big}, true},
		{"by the device, with checkpointing", 6, []knob.Setting{big, {Name: "checkpointing", Value: "on"}}, true},
		{"by the device, with another accumulation", 6, []knob.Setting{big, {Name: "gradient_accumulation", Value: "2"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, s, err := lossesOf(t, tt.at, tt.changes)
			if (err == nil) != tt.asked {
				t.Fatalf("Set says %v", err)
			}
			told := false
			for _, n := range s.Notes {
				told = told || n.Level == "error" && strings.Contains(n.Text, "not applied") && strings.Contains(n.Text, "lower batch_size")
			}
			if told != tt.asked {
				t.Errorf("notes %v", s.Notes)
			}
			if len(s.Segments) != 1 {
				t.Errorf("%d segments: the change is in force", len(s.Segments))
			}
			if len(got) != len(want) {
				t.Fatalf("%d steps, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("losses differ from step %d on: %v, want %v", i, got[i:], want[i:])
				}
			}
		})
	}
}
