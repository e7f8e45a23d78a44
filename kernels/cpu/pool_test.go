package cpu

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dev.gpustall/kernels"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPoolRunsEachItemOnce(t *testing.T) {
	p := NewPool(4)
	defer p.Close()
	for n := range 200 {
		counts := make([]atomic.Int32, n)
		p.each(n, func(worker, i int) {
			if worker < 0 || worker >= p.Threads() {
				t.Errorf("worker %d of %d", worker, p.Threads())
			}
			counts[i].Add(1)
		})
		for i := range counts {
			if c := counts[i].Load(); c != 1 {
				t.Fatalf("item %d of %d ran %d times", i, n, c)
			}
		}
	}
}

// No two items may run under one worker number at a time: scratch depends on it.
func TestPoolWorkersAreExclusive(t *testing.T) {
	p := NewPool(4)
	defer p.Close()
	busy := make([]atomic.Bool, p.Threads())
	p.each(2000, func(worker, _ int) {
		if busy[worker].Swap(true) {
			t.Errorf("worker %d is used twice at once", worker)
		}
		runtime.Gosched()
		busy[worker].Store(false)
	})
}

func TestPoolIsShared(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	var total atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				p.each(10, func(int, int) { total.Add(1) })
			}
		})
	}
	wg.Wait()
	if n := total.Load(); n != 4000 {
		t.Errorf("%d items ran, want 4000", n)
	}
}

// A panic reaches the caller with its reason, and the pool goes on working.
func TestPoolPanic(t *testing.T) {
	p := NewPool(3)
	defer p.Close()
	for range 20 {
		func() {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.Contains(r, "out of range here") {
					t.Errorf("recovered %v", r)
				}
			}()
			p.each(50, func(_, i int) {
				if i == 7 {
					panic("out of range here")
				}
			})
		}()
		ran := atomic.Int32{}
		p.each(9, func(int, int) { ran.Add(1) })
		if ran.Load() != 9 {
			t.Fatalf("after a panic %d of 9 items ran", ran.Load())
		}
	}
}

func TestPoolCloseTwice(t *testing.T) {
	p := NewPool(2)
	p.Close()
	p.Close()
	ran := 0
	p.each(3, func(int, int) { ran++ }) // on the caller alone
	if ran != 3 {
		t.Errorf("%d of 3 items ran", ran)
	}
}

func TestPrepareRefuses(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{kernels.Add{N: 4}, [][]byte{make([]byte, 16)}}, "takes 3 buffers, not 1"},
		{Call{kernels.Zero{N: 4}, [][]byte{make([]byte, 3)}}, "has 3 bytes and needs 4"},
		{Call{kernels.Cast{N: 1, Type: kernels.F16}, [][]byte{make([]byte, 4), make([]byte, 2)}}, "fp32 and bf16"},
	} {
		if _, err := p.Prepare([]Call{c.call}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.call.Op.Name(), err, c.want)
		}
	}
	conv := kernels.ConvForward{Conv: convs[13]}
	pl, err := p.Prepare([]Call{{conv, buffers(nil, conv, zeroed)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pl.Bind(make([]byte, pl.Scratch()-1)); err == nil {
		t.Error("too little scratch memory was accepted")
	}
}

// zeroed fills every argument with zeros.
func zeroed(_ string, b []byte) bool {
	clear(b)
	return true
}

func TestRunAllocatesNothing(t *testing.T) {
	for _, v := range variants() {
		if v == pureGo {
			continue // the references allocate
		}
		p := newPool(t, 2, v)
		var calls []Call
		for _, op := range step(2) {
			calls = append(calls, Call{op, buffers(nil, op, zeroed)})
		}
		pl := bindAll(t, p, calls...)
		run := func() {
			for i := range pl.Len() {
				pl.Run(i)
			}
		}
		run()
		if n := testing.AllocsPerRun(5, run); n != 0 {
			t.Errorf("%v: %g allocations a step", v, n)
		}
	}
}

// step is one operation of every kind, of small sizes.
func step(n int) []kernels.Op {
	stem := kernels.Conv{N: n, H: 8, W: 8, C: 3, K: 16, R: 3, S: 3, Stride: 1, Pad: 1}
	body := kernels.Conv{N: n, H: 8, W: 8, C: 16, K: 32, R: 3, S: 3, Stride: 1, Pad: 1}
	down := kernels.Conv{N: n, H: 8, W: 8, C: 16, K: 32, R: 3, S: 3, Stride: 2, Pad: 1}
	pool := kernels.MaxPool{N: n, H: 8, W: 8, C: 16, Size: 2, Stride: 2}
	avg, lin := kernels.AvgPool{N: n, H: 4, W: 4, C: 16}, kernels.Linear{N: n, In: 16, Out: 10}
	ops := []kernels.Op{
		kernels.Augment{N: n, H: 8, W: 8, C: 3, CPad: 4, Std: [4]float32{1, 1, 1, 1}}, kernels.PadChannels{Rows: 9, C: 3, CPad: 4},
		kernels.BatchNormForward{Rows: 64 * n, C: 16, Train: true}, kernels.BatchNormForward{Rows: 64 * n, C: 16},
		kernels.BatchNormBackward{Rows: 64 * n, C: 16, ReLU: true, Residual: true},
		kernels.ReLUBackward{N: 99}, kernels.Add{N: 99}, kernels.Optimizer{N: 99}, kernels.Zero{N: 99}, kernels.Cast{N: 99},
		kernels.ScaleCheck{N: 99}, pool, kernels.MaxPoolBackward{MaxPool: pool}, avg, kernels.AvgPoolBackward{AvgPool: avg},
		lin, kernels.LinearBackward{Linear: lin}, kernels.SoftmaxXent{N: n, C: 10},
	}
	for _, c := range []kernels.Conv{stem, body, down} {
		ops = append(ops, kernels.ConvForward{Conv: c, Bias: true, ReLU: true}, kernels.ConvBackwardData{Conv: c},
			kernels.ConvBackwardWeight{Conv: c, Bias: true})
	}
	return ops
}
