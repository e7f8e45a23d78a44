//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/devicetest"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

func TestMain(m *testing.M) {
	if os.Getenv("GPUSTALL_TEST_TRIALS") != "" { // see trials
		if err := ServeTrials(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// open opens GPU 0. Without a driver the test is skipped, unless
// GPUSTALL_TEST_CUDA says that there must be one.
func open(tb testing.TB) *Device {
	tb.Helper()
	return openWith(tb, Config{})
}

func openWith(tb testing.TB, c Config) *Device {
	tb.Helper()
	if err := Available(); err != nil {
		if os.Getenv("GPUSTALL_TEST_CUDA") != "" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	d, err := Open(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d.(*Device)
}

// emulated reports whether the driver is this project's own, for tests that lean
// on its delays.
func emulated(d *Device) bool { return strings.HasPrefix(d.info.Name, "Emulated") }

func TestDevice(t *testing.T) {
	d := open(t)
	t.Logf("%+v", d.info)
	devicetest.Run(t, d)
}

// Without the waits between the streams, steps compute on the wrong batch. It
// shows that the waits in devicetest's pipeline are what makes it right, and that
// the emulated driver finds a wait that is missing.
func TestMissingWaitIsCaught(t *testing.T) {
	d := open(t)
	if !emulated(d) {
		t.Skip("only the emulated driver delays commands on purpose")
	}
	if bad := devicetest.Pipeline(t, d, 60, false); bad == 0 {
		t.Error("60 steps without waits were all right: the emulated driver hides a missing dependency")
	}
	if bad := devicetest.Pipeline(t, d, 60, true); bad != 0 {
		t.Errorf("%d of 60 steps with waits were wrong", bad)
	}
	if bad := devicetest.ReadBack(t, d, 60, false); bad == 0 {
		t.Error("60 results read without waits were all right: the emulated driver hides a missing dependency")
	}
	if bad := devicetest.ReadBack(t, d, 60, true); bad != 0 {
		t.Errorf("%d of 60 results read with waits were wrong", bad)
	}
}

// rig is a doubling program over n floats.
func rig(t *testing.T, d *Device, n int) (s device.Stream, y device.Buffer, p device.Program) {
	t.Helper()
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	if y, err = d.Alloc(4 * n); err != nil {
		t.Fatal(err)
	}
	add := device.Launch{Op: kernels.Add{N: n}, Bufs: []device.Buffer{y, y, y}}
	if p, err = d.Prepare([]device.Launch{add, add, add}); err != nil {
		t.Fatal(err)
	}
	return s, y, p
}

func TestCapture(t *testing.T) {
	d := open(t)
	const n = 1000
	s, y, p := rig(t, d, n)
	host, err := d.AllocHost(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	v := kernels.Floats(host)
	launch := d.Launch
	var timings []device.Timing
	run := func(want float32) {
		t.Helper()
		for i := range v {
			v[i] = 1
		}
		e, _ := d.NewEvent()
		err := errors.Join(d.CopyIn(s, y, host), launch(s, p), launch(s, p), d.CopyOut(s, host, y), d.Record(s, e), d.Sync(e))
		d.FreeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		for i := range v {
			if v[i] != want {
				t.Fatalf("y[%d] = %v, want %v", i, v[i], want)
			}
		}
	}
	run(64)
	for range 2 {
		if err := d.Capture(p, true); err != nil {
			t.Fatal(err)
		}
		if d.programs.At(p).graph == nil {
			t.Fatal("Capture made no graph")
		}
		run(64)
		launch = func(s device.Stream, p device.Program) error { // past the graph
			timing, err := d.LaunchTimed(s, p)
			timings = append(timings, timing)
			return err
		}
		run(64)
		launch = d.Launch
		for _, timing := range timings {
			if times, err := d.OpTimes(timing, nil); err != nil || len(times) != 3 || times[0] <= 0 {
				t.Errorf("times of a captured program: %v, %v", times, err)
			}
		}
		timings = timings[:0]
		if err := d.Capture(p, false); err != nil {
			t.Fatal(err)
		}
		run(64)
	}
	empty, err := d.Prepare(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Capture(empty, true), d.Launch(s, empty)); err != nil {
		t.Errorf("an empty program: %v", err)
	}
}

// TestCaptureFresh captures a program as the first thing that a fresh device does with
// it. No kernel of the step has run before. A kernel that is loaded only at its first
// launch would spoil the capture.
func TestCaptureFresh(t *testing.T) {
	for _, typ := range []kernels.Type{kernels.F32, kernels.BF16} {
		d := open(t)
		got := curve{model: "cnn", side: 8, batch: 2, steps: 1, lr: 0.02, typ: typ, capture: true}.losses(t, d)
		if len(got) != 1 || d.programs.At(1).graph == nil {
			t.Errorf("%v: losses %v of a program that is no graph", typ, got)
		}
	}
}

// Running out of device memory leaves the device as it was.
func TestOutOfMemory(t *testing.T) {
	d := open(t)
	var bufs []device.Buffer
	for {
		b, err := d.Alloc(256 << 20)
		if err == nil {
			bufs = append(bufs, b)
			if len(bufs) > 2000 {
				t.Fatal("no end of memory")
			}
			continue
		}
		if !errors.Is(err, device.ErrOutOfMemory) || !strings.Contains(err.Error(), "batch_size") {
			t.Errorf("%v, want ErrOutOfMemory that names batch_size", err)
		}
		break
	}
	for _, b := range bufs {
		d.Free(b)
	}
	s, _, p := rig(t, d, 1000)
	e, _ := d.NewEvent()
	if err := errors.Join(d.Launch(s, p), d.Record(s, e), d.Sync(e)); err != nil {
		t.Error(err)
	}
}

// The context follows the calls to whatever thread makes them.
func TestAnyThread(t *testing.T) {
	d := open(t)
	s, _, p := rig(t, d, 100)
	e, err := d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			mu.Lock() // the contract: one caller at a time
			defer mu.Unlock()
			if err := errors.Join(d.Launch(s, p), d.Record(s, e), d.Sync(e)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestReopen(t *testing.T) {
	for range 3 {
		d := open(t)
		s, _, p := rig(t, d, 100)
		e, _ := d.NewEvent()
		if err := errors.Join(d.Launch(s, p), d.Record(s, e), d.Sync(e), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := d.Launch(s, p); err == nil {
			t.Error("Launch on a closed device gave no error")
		}
		if _, err := d.AllocHost(10); err == nil {
			t.Error("AllocHost on a closed device gave no error")
		}
	}
}

func TestNoSuchGPU(t *testing.T) {
	open(t)
	for _, n := range []int{-1, 99} {
		if _, err := Open(Config{Ordinal: n}); !errors.Is(err, device.ErrNoDevice) {
			t.Errorf("GPU %d: %v, want ErrNoDevice", n, err)
		}
	}
}

func BenchmarkDevice(b *testing.B) { devicetest.Bench(b, open(b)) }

// Every variant of every kernel gives the reference's results.
func TestVariants(t *testing.T) {
	if testing.Short() {
		t.Skip("every variant of every convolution takes long on the emulated driver")
	}
	d := open(t)
	for _, c := range devicetest.Cases() {
		configs := cudakernels.Configs(c.Op, d.code.target)
		if len(configs) < 2 {
			continue
		}
		for _, config := range configs[1:] { // TestDevice runs the first
			t.Run(c.Name+"/"+config, func(t *testing.T) {
				d.tuner.pick = func(kernels.Op) string { return config }
				defer func() { d.tuner.pick = nil }()
				c.Run(t, d)
			})
		}
	}
}

// Host memory that is written again before its copy's event has completed
// spoils the copy, page-locked or not: the emulated driver reads it late.
func TestEarlyReuseIsCaught(t *testing.T) {
	d := open(t)
	if !emulated(d) {
		t.Skip("only the emulated driver delays commands on purpose")
	}
	s, y, _ := rig(t, d, 1024)
	e, _ := d.NewEvent()
	for _, pinned := range []bool{true, false} {
		src := make([]byte, y.Size)
		if pinned {
			src, _ = d.AllocHost(y.Size)
		}
		got := make([]byte, y.Size)
		spoilt := func(sync bool) (bad int) {
			for range 60 {
				src[0] = 1
				err := d.CopyIn(s, y, src)
				if sync {
					err = errors.Join(err, d.Record(s, e), d.Sync(e))
				}
				src[0] = 2
				err = errors.Join(err, d.CopyOut(s, got, y), d.Record(s, e), d.Sync(e))
				if err != nil {
					t.Fatal(err)
				}
				if got[0] != 1 {
					bad++
				}
			}
			return bad
		}
		if spoilt(false) == 0 {
			t.Errorf("pinned %v: 60 early reuses went unseen", pinned)
		}
		if n := spoilt(true); n != 0 {
			t.Errorf("pinned %v: %d of 60 copies were spoilt after their event", pinned, n)
		}
	}
}
