package cpu

import (
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// The streams are asynchronous: work behind a Wait for a record that lies behind
// unfinished work is pending when the enqueue returns, and Query says so.
func TestAsynchronous(t *testing.T) {
	d := open(t)
	s, _ := d.NewStream("s")
	gate := make(chan struct{})
	st := d.streams.At(1)
	// A lock that the test holds stands for long work.
	d.turn.Lock()
	b, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Prepare([]device.Launch{{Op: kernels.Zero{N: 64}, Bufs: []device.Buffer{b}}})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := d.NewEvent()
	if err := d.Launch(s, p); err != nil {
		t.Fatal(err)
	}
	if err := d.Record(s, e); err != nil {
		t.Fatal(err)
	}
	if done, err := d.Query(e); done || err != nil {
		t.Fatalf("Query while the work is held: %v, %v; want false", done, err)
	}
	if _, err := d.Elapsed(e, e); err == nil {
		t.Error("Elapsed of a pending event gave no error")
	}
	go func() { _ = d.Sync(e); close(gate) }()
	select {
	case <-gate:
		t.Error("Sync returned while the work was held")
	case <-time.After(10 * time.Millisecond):
	}
	d.turn.Unlock()
	<-gate
	if done, _ := d.Query(e); !done {
		t.Error("Query after Sync: false")
	}
	if st.done.Load() != 2 {
		t.Errorf("%d commands done, want 2", st.done.Load())
	}
}

// A kernel that panics while it runs must not end the process or leave anyone
// waiting: the device reports the fault from then on.
func TestKernelPanic(t *testing.T) {
	d, err := Open(2)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream("s")
	const n, classes = 4, 10
	op := kernels.SoftmaxXent{N: n, C: classes}
	var bufs []device.Buffer
	for _, a := range op.Args() {
		b, err := d.Alloc(a.Size())
		if err != nil {
			t.Fatal(err)
		}
		bufs = append(bufs, b)
	}
	p, err := d.Prepare([]device.Launch{{Op: op, Bufs: bufs}})
	if err != nil {
		t.Fatal(err)
	}
	wild := []byte{0xff, 0xff, 0xff, 0x0f} // a label far out of range
	_ = d.CopyIn(s, bufs[1], wild)
	e, _ := d.NewEvent()
	d.programs.At(p).plan = nil // a fault that no check foresees
	if err := d.Launch(s, p); err != nil {
		t.Fatal(err)
	}
	_ = d.Record(s, e)
	if err := d.Sync(e); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("Sync after a panic: %v", err)
	}
	if err := d.Launch(s, p); err == nil {
		t.Error("Launch after a fault gave no error")
	}
	if _, err := d.Query(e); err == nil {
		t.Error("Query after a fault gave no error")
	}
	if err := d.Close(); err == nil {
		t.Error("Close did not report the fault")
	}
}

func TestClose(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream("s")
	b, _ := d.Alloc(1 << 20)
	h, _ := d.AllocHost(1 << 20)
	for range 2000 { // more than the queue holds
		if err := d.CopyIn(s, b, h[:64]); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	for name, err := range map[string]error{
		"CopyIn":    d.CopyIn(s, b, []byte{1}),
		"NewStream": second(d.NewStream("x")),
		"NewEvent":  second(d.NewEvent()),
		"Alloc":     second(d.Alloc(1)),
		"Prepare":   second(d.Prepare(nil)),
	} {
		if err == nil {
			t.Errorf("%s on a closed device gave no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(-1); err == nil {
		t.Error("Open(-1) gave no error")
	}
}

func BenchmarkEnqueue(b *testing.B) {
	d := open(b)
	s, _ := d.NewStream("s")
	e, _ := d.NewEvent()
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Record(s, e)
	}
	_ = d.Sync(e)
}

func BenchmarkRoundTrip(b *testing.B) {
	d := open(b)
	s, _ := d.NewStream("s")
	e, _ := d.NewEvent()
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Record(s, e)
		_ = d.Sync(e)
	}
}
