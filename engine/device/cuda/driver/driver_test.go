//go:build cuda && cgo && linux

package driver

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"gorgonia.org/cu"

	cudakernels "dev.gpustall/kernels/cuda"
)

func open(tb testing.TB) (Context, cu.Function, cu.Stream) {
	tb.Helper()
	if err := Load(); err != nil {
		if os.Getenv("GPUSTALL_TEST_CUDA") != "" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	dev, err := cu.GetDevice(0)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, err := Retain(dev)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := ctx.LoadModule(elementwise(tb, dev))
	if err != nil {
		tb.Fatal(err)
	}
	var f cu.Function
	var s cu.Stream
	if err := ctx.Do(func() (err error) {
		if f, err = m.Function("add_fp32"); err != nil {
			return err
		}
		if _, err = f.Attribute(cu.NumRegs); err != nil { // loads it: a capture cannot
			return err
		}
		s, err = cu.MakeStream(cu.NonBlocking)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := ctx.Do(func() error { return s.Destroy() }); err != nil {
			tb.Error(err)
		}
		if err := ctx.Release(dev); err != nil {
			tb.Error(err)
		}
	})
	return ctx, f, s
}

// addArgs is how many arguments add_fp32 takes.
const addArgs = 5

// elementwise is the module that holds add_fp32, which stands for any kernel.
func elementwise(tb testing.TB, dev cu.Device) []byte {
	tb.Helper()
	major, err := dev.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		tb.Fatal(err)
	}
	minor, err := dev.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		tb.Fatal(err)
	}
	ptx, err := cudakernels.PTX("elementwise", 10*major+minor)
	if err != nil {
		tb.Fatal(err)
	}
	return ptx
}

func TestBadPTX(t *testing.T) {
	ctx, _, _ := open(t)
	if _, err := ctx.LoadModule([]byte("this is not PTX")); err == nil {
		t.Error("no error")
	}
}

// The emulated driver runs the kernels it was built with, so PTX of other ones,
// newer or older, must not pass for them.
func TestOtherPTX(t *testing.T) {
	ctx, _, _ := open(t)
	dev, err := cu.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := dev.Name(); err != nil || !strings.HasPrefix(name, "Emulated") {
		t.Skip("a real driver runs any PTX")
	}
	ptx := elementwise(t, dev)
	at := bytes.Index(ptx, []byte("ret;"))
	other := bytes.Clone(ptx)
	copy(other[at:], "RET;")
	for _, p := range [][]byte{other, append(bytes.Clone(ptx), '\n'), ptx[:len(ptx)-1]} {
		if _, err := ctx.LoadModule(p); err == nil || !strings.Contains(err.Error(), "make emulated") {
			t.Errorf("PTX that is not of the driver's sources: %v, want a refusal that says what to make", err)
		}
	}
}

func TestCommandsFull(t *testing.T) {
	c, err := NewCommands(1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Free()
	l := Launch{Args: make([]uint64, MaxArgs)}
	if err := c.Launch(&l); err != nil {
		t.Error(err)
	}
	if c.Launch(&l) == nil {
		t.Error("a full buffer took another launch")
	}
	l.Args = make([]uint64, MaxArgs+1)
	if c.Launch(&l) == nil {
		t.Error("a launch took more arguments than fit")
	}
}

func TestErrors(t *testing.T) {
	open(t)
	if got := OutOfMemory.Error(); got != "CUDA_ERROR_OUT_OF_MEMORY: out of memory" {
		t.Errorf("%q", got)
	}
	if got := Error(123456).Error(); got != "CUDA error 123456" {
		t.Errorf("%q", got)
	}
}

func TestAllocAsync(t *testing.T) {
	ctx, _, s := open(t)
	p, err := ctx.AllocAsync(1<<20, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []byte("page-locked or not")
	got := make([]byte, len(want))
	if err := errors.Join(ctx.CopyIn(p, want, s), ctx.CopyOut(got, p, s), ctx.FreeAsync(p, s), ctx.Do(s.Synchronize)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if _, err := ctx.AllocAsync(1<<44, s); !errors.Is(err, OutOfMemory) {
		t.Errorf("16 TiB: %v", err)
	}
}

// A capture that meets an error leaves the stream usable.
func TestCaptureFails(t *testing.T) {
	ctx, f, s := open(t)
	c, err := NewCommands(2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Free()
	good := Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Args: make([]uint64, addArgs)}
	bad := good
	bad.Block[0] = 4096
	if err := errors.Join(c.Launch(&good), c.Launch(&bad)); err != nil {
		t.Fatal(err)
	}
	if _, i, err := ctx.Capture(c, s); err == nil || i != 1 {
		t.Errorf("captured a launch of 4096 threads: command %d, %v", i, err)
	}
	if i, err := ctx.Run(c, s); err == nil || i != 1 {
		t.Errorf("ran a launch of 4096 threads: command %d, %v", i, err)
	}
	if err := ctx.Do(s.Synchronize); err != nil {
		t.Error(err)
	}
}

func commands(b *testing.B, f cu.Function, n int) *Commands {
	c, err := NewCommands(n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Free)
	for range n {
		if err := c.Launch(&Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Args: make([]uint64, addArgs)}); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// The cost of a launch from Go, beside the driver's own: against the emulated
// driver with GPUSTALL_EMU_NOOP=1, whose launch returns at once.
func BenchmarkLaunch(b *testing.B) {
	ctx, f, s := open(b)
	if os.Getenv("GPUSTALL_EMU_NOOP") == "" {
		b.Skip("set GPUSTALL_EMU_NOOP=1, and use the emulated driver")
	}
	for _, n := range []int{1, 100} {
		c := commands(b, f, n)
		b.Run(map[int]string{1: "one call each", 100: "100 in one call"}[n], func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				if _, err := ctx.Run(c, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("crossing to C and back", func(b *testing.B) {
		for range b.N {
			Noop()
		}
	})
}

// BenchmarkContext tells what an OS thread locked to the context would save, compared
// with making the context current at each call. It times the binding by itself, and a
// launch in four ways.
func BenchmarkContext(b *testing.B) {
	ctx, f, s := open(b)
	if os.Getenv("GPUSTALL_EMU_NOOP") == "" {
		b.Skip("set GPUSTALL_EMU_NOOP=1, and use the emulated driver")
	}
	c := commands(b, f, 1)
	launch := func() error {
		_, err := ctx.Run(c, s)
		return err
	}
	b.Run("crossing to C and back", func(b *testing.B) {
		for range b.N {
			Noop()
		}
	})
	b.Run("crossing and binding", func(b *testing.B) {
		for range b.N {
			if err := ctx.bind(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("launch from any thread", func(b *testing.B) {
		for range b.N {
			if err := launch(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("launch from a locked thread", func(b *testing.B) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range b.N {
			if err := launch(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("launch in Do", func(b *testing.B) { // as calls of gorgonia.org/cu are made
		for range b.N {
			if err := ctx.Do(launch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("launch through a locked thread", func(b *testing.B) {
		calls, results := make(chan func() error), make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			for call := range calls {
				results <- call()
			}
			close(results)
		}()
		for range b.N {
			calls <- launch
			if err := <-results; err != nil {
				b.Fatal(err)
			}
		}
		close(calls)
		<-results
	})
}
