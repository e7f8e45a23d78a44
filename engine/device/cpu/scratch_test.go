package cpu

import (
	"bytes"
	"testing"

	"dev.gpustall/engine/device"
	"dev.gpustall/kernels"
)

// A program that needs more scratch memory than the one before leaves one block, which both
// use and which is all that the two together were planned to need.
func TestScratchGrows(t *testing.T) {
	d := open(t)
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	prepare := func(op kernels.Op) (device.Program, []device.Buffer, device.Launch) {
		l := device.Launch{Op: op}
		for _, a := range op.Args() {
			b, err := d.Alloc(a.Size())
			if err != nil {
				t.Fatal(err)
			}
			held += a.Size()
			ones := make([]byte, a.Size())
			kernels.Store(ones, a.Type, exactly(a.Len))
			if err := d.CopyIn(s, b, ones); err != nil {
				t.Fatal(err)
			}
			l.Bufs = append(l.Bufs, b)
		}
		p, err := d.Prepare([]device.Launch{l})
		if err != nil {
			t.Fatal(err)
		}
		return p, l.Bufs, l
	}
	run := func(p device.Program, y device.Buffer) []byte {
		out := make([]byte, y.Size)
		if err := d.Launch(s, p); err != nil {
			t.Fatal(err)
		}
		if err := d.CopyOut(s, out, y); err != nil {
			t.Fatal(err)
		}
		e, err := d.NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Record(s, e); err != nil {
			t.Fatal(err)
		}
		if err := d.Sync(e); err != nil {
			t.Fatal(err)
		}
		return out
	}
	// A linear layer in bf16 runs on widened copies, which are bound when their memory is there.
	small, bufs, first := prepare(kernels.Linear{N: 4, In: 8, Out: 6, Type: kernels.BF16})
	want := run(small, bufs[2])
	_, _, second := prepare(kernels.Linear{N: 400, In: 80, Out: 60, Type: kernels.BF16})
	one, both := d.Overhead([]device.Launch{first}), d.Overhead([]device.Launch{first, second})
	if one >= both {
		t.Fatalf("the second program needs no more than the first: %d and %d bytes", one, both)
	}
	if n := int64(held) + both; d.MemoryHeld() != n || d.MemoryPeak() != n {
		t.Errorf("%d bytes held, %d at most; planned %d", d.MemoryHeld(), d.MemoryPeak(), n)
	}
	if got := run(small, bufs[2]); !bytes.Equal(got, want) {
		t.Error("the first program computes something else on the larger block")
	}
}

// exactly returns n values that bfloat16s hold exactly.
func exactly(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%7) - 3
	}
	return v
}
