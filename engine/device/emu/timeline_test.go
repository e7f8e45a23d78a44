package emu

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// rig fails the test on any error of the device.
type rig struct {
	*testing.T
	*Device
	clock         *virtualClock
	copy, compute device.Stream
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	r := &rig{T: t, clock: new(virtualClock)}
	p, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	r.Device = New(p, r.clock)
	r.copy, _ = r.NewStream("copy")
	r.compute, _ = r.NewStream("compute")
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// pair is n bytes of device memory and as many that are page-locked.
func (r *rig) pair(n int) (device.Buffer, []byte) {
	buf, err := r.Alloc(n)
	r.must(err)
	slot, err := r.AllocHost(n)
	r.must(err)
	return buf, slot
}

func (r *rig) fixed(d time.Duration) device.Program {
	p, err := r.Prepare([]device.Launch{{Op: Fixed{d}}})
	r.must(err)
	return p
}

func (r *rig) record(s device.Stream) device.Event {
	e, err := r.NewEvent()
	r.must(err)
	r.must(r.Record(s, e))
	return e
}

// at is where e lies on the clock.
func (r *rig) at(e device.Event) time.Duration { return time.Duration(r.events.At(e).time) }

// Three steps of copy, wait and compute: every event is where arithmetic says.
func TestTimeline(t *testing.T) {
	r := newRig(t, "emu:h100")
	const n = 1 << 20
	buf, slot := r.pair(n)
	p := r.fixed(time.Millisecond)
	var got []string
	for range 3 {
		r.clock.Advance(100 * time.Microsecond) // the host's work before the step
		r.must(r.CopyIn(r.copy, buf, slot))
		copied := r.record(r.copy)
		r.must(r.Wait(r.compute, copied))
		from := r.record(r.compute)
		r.must(r.Launch(r.compute, p))
		to := r.record(r.compute)
		got = append(got, fmt.Sprint(r.at(copied), " ", r.at(from), " ", r.at(to)))
	}
	// A copy takes 8 us + 1 MiB at 0.85 * 63.015 GB/s = 19.577 us, so 27.577 us.
	want := []string{
		"127.577µs 127.577µs 1.127577ms",
		"227.577µs 1.127577ms 2.127577ms",
		"327.577µs 2.127577ms 3.127577ms",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("step %d: %s, want %s", i, got[i], want[i])
		}
	}
}

// A host that wakes up late does not show on the device's timeline while there is work
// on it. What it is later than that is a gap, to the ns, and the work as long as ever.
func TestLateHost(t *testing.T) {
	const n, step = 64 << 10, 200 * time.Microsecond
	h100, _ := Find("h100")
	pinned, pageable := h100.Card.copyTime(n, true), h100.Card.copyTime(n, false)
	for _, c := range []struct {
		pinned    bool
		late, gap time.Duration // of each wait; behind the work that was there
	}{
		{true, 0, 0}, {true, 2*step - pinned, 0}, {true, 2*step - pinned + 1, 1}, {true, 5 * step, 3*step + pinned},
		{false, 0, 0}, {false, step - pageable, 0}, {false, step - pageable + 7, 7},
	} {
		r := newRig(t, "h100")
		r.clock.late = c.late
		buf, slot := r.pair(n)
		if !c.pinned {
			slot = make([]byte, n)
		}
		p := r.fixed(step)
		var from, to []device.Event
		for i := range 60 { // as the engine does: three steps in flight, two inputs
			if i >= 3 {
				r.must(r.Sync(to[i-3]))
			}
			if i >= 2 {
				r.must(r.Wait(r.copy, to[i-2]))
			}
			r.must(r.CopyIn(r.copy, buf, slot))
			r.must(r.Wait(r.compute, r.record(r.copy)))
			from = append(from, r.record(r.compute))
			r.must(r.Launch(r.compute, p))
			to = append(to, r.record(r.compute))
		}
		gaps := 0
		for i := range to {
			if took := r.at(to[i]) - r.at(from[i]); took != step {
				t.Fatalf("step %d took %v", i, took)
			}
			if i < 3 {
				continue
			}
			switch gap := r.at(from[i]) - r.at(to[i-1]); gap {
			case 0:
			case c.gap:
				gaps++
			default:
				t.Errorf("pinned %v, late by %v: a gap of %v before step %d, want %v or none", c.pinned, c.late, gap, i, c.gap)
			}
		}
		if (gaps > 0) != (c.gap > 0) {
			t.Errorf("pinned %v, late by %v: %d gaps of %v", c.pinned, c.late, gaps, c.gap)
		}
	}
}

// A copy that waits for its stream does not keep the engine from others: the next
// batch's copy is not behind a step that a small copy follows.
func TestCopiesPassWaiting(t *testing.T) {
	r := newRig(t, "emu:h100")
	const n = 1 << 20
	buf, slot := r.pair(n)
	r.must(r.Launch(r.compute, r.fixed(time.Millisecond)))
	r.must(r.CopyIn(r.compute, buf, slot[:32])) // at 1 ms, 8.000597 us long
	small := r.record(r.compute)
	r.must(r.CopyIn(r.copy, buf, slot))
	first := r.record(r.copy)
	for range 40 { // 27.577 us each, up to the small copy and on behind it
		r.must(r.CopyIn(r.copy, buf, slot))
	}
	last := r.record(r.copy)
	if got, want := r.at(first), r.at(small)-time.Millisecond; got >= time.Millisecond || got < want {
		t.Errorf("the batch's copy ends at %v, beside a step that ends at 1ms", got)
	}
	each := r.at(first)
	fit := time.Millisecond / each
	if got, want := r.at(last), r.at(small)+(41-fit)*each; got != want {
		t.Errorf("41 copies of %v around one at %v end at %v, want %v", each, r.at(small), got, want)
	}
}

// Work of different streams takes turns on one compute engine.
func TestSharedEngine(t *testing.T) {
	r := newRig(t, "h100")
	p := r.fixed(time.Millisecond)
	r.must(r.Launch(r.compute, p))
	r.must(r.Launch(r.copy, p))
	if at := r.at(r.record(r.copy)); at != 2*time.Millisecond {
		t.Errorf("the second kernel ended at %v, want 2ms", at)
	}
}

// Pinned copies return at once; pageable ones hold the caller and are slower.
func TestPinMemory(t *testing.T) {
	r := newRig(t, "a100")
	const n = 64 << 20
	buf, slot := r.pair(n)
	r.must(r.CopyIn(r.copy, buf, slot))
	if now := r.clock.Now(); now != 0 {
		t.Errorf("a pinned copy held the caller for %d ns", now)
	}
	pinned := r.at(r.record(r.copy))
	r.must(r.Sync(r.record(r.copy)))
	r.must(r.CopyIn(r.copy, buf, make([]byte, n)))
	pageable := time.Duration(r.clock.Now()) - pinned
	if want := r.preset.Card.copyTime(n, false); pageable != want || pageable <= pinned {
		t.Errorf("a pageable copy held the caller for %v, want %v, over the pinned %v", pageable, want, pinned)
	}
	r.FreeHost(slot)
	before := r.clock.Now()
	r.must(r.CopyIn(r.copy, buf, slot))
	if r.clock.Now() == before {
		t.Error("memory given back still counts as page-locked")
	}
}

// The workloads take what MLPerf Storage v1.0 publishes.
func TestWorkloads(t *testing.T) {
	for name, want := range map[string]struct {
		batch   int
		bytes   int64
		compute time.Duration
	}{
		"unet3d-h100":    {7, 146_600_628, 323 * time.Millisecond},
		"unet3d-a100":    {7, 146_600_628, 636 * time.Millisecond},
		"resnet50-h100":  {400, 114_660, 224 * time.Millisecond},
		"resnet50-a100":  {400, 114_660, 435 * time.Millisecond},
		"cosmoflow-h100": {1, 2_828_486, 3500 * time.Microsecond},
		"cosmoflow-a100": {1, 2_828_486, 5510 * time.Microsecond},
	} {
		p, err := Find("emu:" + name)
		if err != nil {
			t.Fatal(err)
		}
		if w := p.Workload; w == nil || w.BatchSize != want.batch || w.SampleBytes != want.bytes || w.Compute != want.compute {
			t.Errorf("%s: %+v, want %+v", name, w, want)
		}
	}
}

// TestUtilisation: a loader makes a batch every period, and the device needs the time
// compute for each. Once the first batch has come, the device is busy for
// compute/max(compute, period) of the time.
func TestUtilisation(t *testing.T) {
	for _, period := range []time.Duration{100 * time.Millisecond, 323 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond} {
		r := newRig(t, "unet3d-h100")
		w := r.Preset().Workload
		bytes := w.BatchSize * int(w.SampleBytes)
		buf, err := r.Alloc(bytes)
		r.must(err)
		p := r.fixed(w.Compute)
		// Pinned by decree: a gigabyte of real memory would serve no purpose here.
		slot := make([]byte, 1)
		const steps = 200
		var first, last device.Event
		var done [steps]device.Event
		for i := range steps {
			if i >= 2 { // at most two steps in flight
				r.must(r.Sync(done[i-2]))
			}
			r.clock.Sleep(int64(period) * int64(i+1)) // the batch is ready then, at the earliest
			r.must(r.CopyIn(r.copy, buf.Slice(0, 1), slot))
			r.must(r.Wait(r.compute, r.record(r.copy)))
			if i == 1 {
				first = r.record(r.compute)
			}
			r.must(r.Launch(r.compute, p))
			done[i] = r.record(r.compute)
			last = done[i]
		}
		r.must(r.Sync(last))
		wall, err := r.Elapsed(first, last)
		r.must(err)
		got := float64((steps-1)*w.Compute) / float64(wall)
		want := float64(w.Compute) / float64(max(w.Compute, period))
		if math.Abs(got/want-1) > 0.01 {
			t.Errorf("period %v: busy %.4f of the time, arithmetic says %.4f", period, got, want)
		}
	}
}

func TestRoofline(t *testing.T) {
	p, _ := Find("h100")
	c := p.Card
	conv := kernels.ConvForward{Conv: kernels.Conv{N: 128, H: 32, W: 32, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}}
	add := kernels.Add{N: 1 << 24}
	for _, tc := range []struct {
		name string
		op   device.Operation
		want float64 // seconds
	}{
		{"compute bound", conv, 2 * 128 * 32 * 32 * 64 * 64 * 9 / (67e12 * 0.6)},
		{"memory bound", add, 3 * 4 * (1 << 24) / (3.35e12 * 0.8)},
	} {
		got, err := c.Time(tc.op)
		if err != nil {
			t.Fatal(err)
		}
		want := c.LaunchOverhead + time.Duration(tc.want*1e9)
		if d := got - want; d < -2 || d > 2 {
			t.Errorf("%s: %v, want %v", tc.name, got, want)
		}
	}
	half := conv
	half.Type = kernels.BF16
	a, _ := c.Time(conv)
	b, _ := c.Time(half)
	if b >= a {
		t.Errorf("bf16 takes %v, fp32 %v", b, a)
	}
	t4, _ := Find("t4")
	if _, err := t4.Card.Time(half); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("bf16 on a T4: %v, want ErrUnsupported", err)
	}
}

func TestUnknownPreset(t *testing.T) {
	_, err := Find("emu:h1000")
	if !errors.Is(err, device.ErrNoDevice) {
		t.Fatalf("%v, want ErrNoDevice", err)
	}
	for _, n := range Names() {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("%q does not name %s", err, n)
		}
	}
}

func TestRealClock(t *testing.T) {
	c := NewRealClock()
	at := c.Now() + int64(2*time.Millisecond)
	c.Sleep(at)
	if c.Now() < at {
		t.Error("Sleep returned early")
	}
	c.Sleep(0) // long past
}
