package train_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader/transform"
)

// bank is a device of a given size that reserves memory. It only keeps the books: what
// is allocated beyond the reservation is an overdraft.
type bank struct {
	device.Device
	size, reserved, held int
	taken                []int64 // each Reserve that took something
	overdrafts           int
	refuse               int // how many reservations afresh that Fits promised it refuses
	onLaunch             func(n int)
	launches             int
}

func newBank(t *testing.T, size int) *bank {
	t.Helper()
	c, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	return &bank{Device: c, size: size}
}

// need returns what a reservation would take, and the total that would be held. What
// does not fit into the reserved memory takes a piece of its own.
func (b *bank) need(r device.Reservation) (took, all int) {
	sum := 0
	for _, s := range r.Sizes {
		sum += s
	}
	if r.Afresh {
		return sum, sum
	}
	left := b.held + sum
	for _, o := range r.Instead {
		left -= o.Size
	}
	if left <= b.reserved {
		return 0, b.reserved
	}
	return sum, b.reserved + sum
}

func (b *bank) Overhead([]device.Launch) int64 { return 0 }
func (b *bank) Fits(r device.Reservation) bool {
	_, all := b.need(r)
	return all <= b.size
}

func (b *bank) Launch(s device.Stream, p device.Program) error {
	b.launches++
	if b.onLaunch != nil {
		b.onLaunch(b.launches)
	}
	return b.Device.Launch(s, p)
}

func (b *bank) Reserve(r device.Reservation) (int64, error) {
	took, all := b.need(r)
	if r.Afresh {
		if b.held > 0 {
			return 0, fmt.Errorf("bank: %d bytes are held", b.held)
		}
		b.reserved = 0
		if b.refuse > 0 {
			b.refuse--
			return 0, fmt.Errorf("bank: refused: %w", device.ErrOutOfMemory)
		}
	}
	if all > b.size {
		return 0, fmt.Errorf("bank: %d of %d: %w", all, b.size, device.ErrOutOfMemory)
	}
	if took > 0 {
		b.reserved = all
		b.taken = append(b.taken, int64(took))
	}
	return int64(took), nil
}

func (b *bank) Alloc(n int) (device.Buffer, error) {
	buf, err := b.Device.Alloc(n)
	if err == nil {
		b.held += n
		if b.held > b.reserved {
			b.overdrafts++
		}
	}
	return buf, err
}

func (b *bank) Free(buf device.Buffer) {
	b.held -= buf.Size
	b.Device.Free(buf)
}

func bankConfig(t *testing.T, d stripes, k train.Knobs) train.Config {
	m := cnn(t, d)
	return train.Config{
		Task: prepared.Task{Model: m, Seed: 1}, Dataset: d, Transform: transform.CIFARTrain(), Epochs: 3,
		Recipe: m.Recipe(k.Loader.BatchSize), Knobs: k,
	}
}

// TestReserves: a run reserves all its memory before it allocates any. A change to
// smaller batches needs nothing more, and a change to larger ones needs a further
// piece.
func TestReserves(t *testing.T) {
	dev := newBank(t, 1<<30)
	r := newRig(t, dev, bankConfig(t, stripes{n: 200}, small()))
	if len(dev.taken) != 1 {
		t.Fatalf("reserved %d times before the first step", len(dev.taken))
	}
	first := r.engine.Memory()
	if first.Total() == 0 || first.Total() < dev.taken[0] || first.Parameters == 0 || first.Inputs == 0 || first.Activations == 0 {
		t.Errorf("planned %+v, reserved %d", first, dev.taken[0])
	}
	dev.onLaunch = func(n int) {
		for at, v := range map[int]string{5: "8", 12: "64"} {
			if n == at {
				if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: v}}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	s := r.run(t, context.Background())
	checkSteps(t, s)
	if len(s.Segments) != 3 || dev.overdrafts != 0 || len(dev.taken) != 2 {
		t.Errorf("%d segments, %d allocations beyond what was reserved, taken %v", len(s.Segments), dev.overdrafts, dev.taken)
	}
	if m := r.engine.Memory(); m.Total() <= first.Total() {
		t.Errorf("planned %v after %v", m, first)
	}
	said := false
	for _, n := range s.Notes {
		said = said || strings.Contains(n.Text, "device memory: took")
	}
	if !said {
		t.Errorf("no note of the second piece: %+v", s.Notes)
	}
}

// TestRefusesUpFront: a run that does not fit is refused before it allocates anything.
// The refusal says what the run needs by part, and a batch_size that does fit.
func TestRefusesUpFront(t *testing.T) {
	const room = 6 << 20
	d := stripes{n: 600}
	dev := newBank(t, room)
	k := small()
	k.Loader.BatchSize = 256
	cfg := bankConfig(t, d, k)
	cfg.Device, cfg.Recorder = dev, trace.NewRecorder(trace.NewClock(), 1<<10)
	_, err := train.New(cfg)
	if !errors.Is(err, device.ErrOutOfMemory) {
		t.Fatalf("%v, want ErrOutOfMemory", err)
	}
	if dev.held != 0 || len(dev.taken) != 0 {
		t.Errorf("%d bytes are held, %v taken", dev.held, dev.taken)
	}
	m := regexp.MustCompile(`batch_size=256 in fp32: it needs [\d.]+ MiB of device memory \(activations [\d.]+ MiB, inputs [\d.]+ MiB, parameters [\d.]+ MiB\), but .*; lower batch_size to (\d+)$`).FindStringSubmatch(err.Error())
	if m == nil {
		t.Fatalf("%v", err)
	}
	n, _ := strconv.Atoi(m[1])
	for _, c := range []struct {
		batch int
		fits  bool
	}{{n, true}, {n + 1, false}} {
		cfg.Knobs.Loader.BatchSize = c.batch
		e, err := train.New(cfg)
		if (err == nil) != c.fits {
			t.Errorf("batch_size=%d: %v, fits %v", c.batch, err, c.fits)
		}
		if err == nil {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := dev.Device.Close(); err != nil {
		t.Error(err)
	}
}

// TestMoves: a plan that fits alone, but not beside the one in force, takes that one's
// place. If the driver breaks its word, the old plan comes back.
func TestMoves(t *testing.T) {
	losses := map[string][]float32{}
	for name, c := range map[string]struct{ size, refuse, segments, taken int }{
		"room for both": {1 << 30, 0, 2, 2}, "room for one": {18 << 20, 0, 2, 2}, "refused after all": {18 << 20, 1, 1, 2},
	} {
		dev := newBank(t, c.size)
		dev.refuse = c.refuse
		k := small()
		k.Loader.BatchSize = 32
		r := newRig(t, dev, bankConfig(t, stripes{n: 300}, k))
		dev.onLaunch = func(n int) {
			if n == 5 {
				if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "48"}}); err != nil {
					t.Error(err)
				}
			}
		}
		s := r.run(t, context.Background())
		checkSteps(t, s)
		if len(s.Segments) != c.segments || len(dev.taken) != c.taken || dev.overdrafts != 0 {
			t.Errorf("%s: %d segments, taken %v, %d allocations beyond it; notes %+v", name, len(s.Segments), dev.taken, dev.overdrafts, s.Notes)
		}
		for i := range s.Recent {
			losses[name] = append(losses[name], s.Recent[i].Loss)
		}
	}
	for i, want := range losses["room for both"] {
		if got := losses["room for one"][i]; got != want {
			t.Fatalf("step %d: loss %v after a move, %v without one", i, got, want)
		}
	}
}

// TestRefusesLive: a change that does not fit leaves the old plan in force, untouched.
func TestRefusesLive(t *testing.T) {
	dev := newBank(t, 6<<20)
	r := newRig(t, dev, bankConfig(t, stripes{n: 300}, small()))
	held := 0
	dev.onLaunch = func(n int) {
		switch n {
		case 5:
			held = dev.held
			if err := r.engine.Set([]knob.Setting{{Name: "batch_size", Value: "256"}}); err != nil {
				t.Error(err)
			}
		case 8:
			if dev.held != held || len(dev.taken) != 1 {
				t.Errorf("%d bytes held after the refusal, %d before; taken %v", dev.held, held, dev.taken)
			}
		}
	}
	s := r.run(t, context.Background())
	checkSteps(t, s)
	if len(s.Segments) != 1 || len(s.Recent) != 3*19 {
		t.Errorf("%d segments, %d steps", len(s.Segments), len(s.Recent))
	}
	note := ""
	for _, n := range s.Notes {
		if n.Level == "error" {
			note = n.Text
		}
	}
	if !strings.Contains(note, "batch_size 16 -> 256 not applied") || !strings.Contains(note, "lower batch_size to ") {
		t.Errorf("the note says %q", note)
	}
}
