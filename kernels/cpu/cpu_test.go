package cpu

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"dev.gpustall/kernels"
)

// newPool is NewPool with an instruction set of the test's choice.
func newPool(t testing.TB, threads int, v variant) *Pool {
	p := NewPool(threads)
	p.variant = v
	t.Cleanup(p.Close)
	return p
}

// variants lists the instruction sets that can run here.
func variants() []variant { return []variant{pureGo, generic, avx2, avx512}[:best()+1] }

// eachVariant runs f as a subtest for every instruction set that can run here.
func eachVariant(t *testing.T, f func(t *testing.T, p *Pool)) {
	for _, v := range variants() {
		if raceEnabled && v != pureGo && v != best() {
			continue // the goroutines do the same whatever the instructions
		}
		t.Run(v.String(), func(t *testing.T) { f(t, newPool(t, 3, v)) })
	}
}

// bytesOf returns n bytes aligned to a cache line, with guard bytes behind.
func bytesOf(n int) []byte {
	b := make([]byte, n+128)
	off := misaligned(b)
	for i := range b {
		b[i] = 0xa5
	}
	return b[off : off+n : off+n]
}

func guardIntact(b []byte) bool {
	for _, g := range unsafe.Slice(unsafe.SliceData(b), len(b)+64)[len(b):] {
		if g != 0xa5 {
			return false
		}
	}
	return true
}

// buffers makes op's arguments: normal deviates, and for what an operation
// demands more of, fill's choice.
func buffers(r *rand.Rand, op kernels.Op, fill func(name string, b []byte) bool) [][]byte {
	var bufs [][]byte
	for _, a := range op.Args() {
		b := bytesOf(a.Size())
		switch {
		case fill != nil && fill(a.Name, b):
		case a.Type == kernels.F32:
			for i, v := 0, kernels.Floats(b); i < len(v); i++ {
				v[i] = float32(r.NormFloat64())
			}
		case a.Type == kernels.U8:
			for i := range b {
				b[i] = byte(r.IntN(256))
			}
		}
		bufs = append(bufs, b)
	}
	return bufs
}

func clone(bufs [][]byte) [][]byte {
	out := make([][]byte, len(bufs))
	for i, b := range bufs {
		out[i] = bytesOf(len(b))
		copy(out[i], b)
	}
	return out
}

func bindAll(t testing.TB, p *Pool, calls ...Call) *Plan {
	t.Helper()
	pl, err := p.Prepare(calls)
	if err != nil {
		t.Fatal(err)
	}
	scratch := bytesOf(pl.Scratch())
	if err := pl.Bind(scratch); err != nil {
		t.Fatal(err)
	}
	return pl
}

// references are the results of operations on the CPU's reference, which takes far longer than
// what it is compared with. Several variants are compared with each.
var references = map[string][][]byte{}

// reference returns what op makes of bufs, which stay as they are.
func reference(op kernels.Op, bufs [][]byte) [][]byte {
	hash := sha256.New()
	fmt.Fprintf(hash, "%T %+v", op, op)
	for _, b := range bufs {
		hash.Write(b)
	}
	key := string(hash.Sum(nil))
	if references[key] == nil {
		references[key] = clone(bufs)
		op.Reference(references[key])
	}
	return references[key]
}

// compare runs op both ways and compares every output: the largest difference
// relative to the largest magnitude must stay under tolerance, and bytes must be
// equal. A second run must give the same bits, whichever thread did what.
func compare(t *testing.T, p *Pool, op kernels.Op, bufs [][]byte, tolerance float64) {
	t.Helper()
	want := reference(op, bufs)
	got := clone(bufs)
	pl := bindAll(t, p, Call{op, got})
	var before [][]byte
	for run := range 2 {
		for i, b := range bufs { // restore what the first run overwrote, and dirty the scratch
			copy(got[i], b)
		}
		for i := range pl.mem {
			pl.mem[i] = float32(math.NaN())
		}
		pl.Run(0)
		for i := range before {
			if string(got[i]) != string(before[i]) {
				t.Errorf("%s %+v: %s is not the same in a second run", op.Name(), op, op.Args()[i].Name)
			}
		}
		before = clone(got)
		for i, a := range op.Args() {
			what := fmt.Sprintf("%s %+v: %s, run %d", op.Name(), op, a.Name, run)
			if !guardIntact(got[i]) {
				t.Fatalf("%s: wrote past the end", what)
			}
			if a.Type != kernels.F32 || a.Role == kernels.In {
				if string(got[i]) != string(want[i]) {
					t.Errorf("%s: bytes differ", what)
				}
				continue
			}
			if e := relativeError(kernels.Floats(got[i]), kernels.Floats(want[i])); !(e <= tolerance) {
				t.Errorf("%s: relative error %.2g, allowed %.2g", what, e, tolerance)
			}
		}
	}
}

func relativeError(got, want []float32) float64 {
	var diff, top float64
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if d != d {
			return math.Inf(1)
		}
		diff, top = max(diff, d), max(top, math.Abs(float64(want[i])))
	}
	if top == 0 {
		return diff
	}
	return diff / top
}
