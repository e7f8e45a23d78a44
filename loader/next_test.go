package loader

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSameBatches: one seed gives the same batches, bytes included, for any number of workers.
func TestSameBatches(t *testing.T) {
	key := maphash.MakeSeed()
	run := func(workers, prefetch int, device, persistent bool) (sums []uint64) {
		l := open(t, Options{Dataset: &numbers{samples: 53}, Seed: 11, Epochs: 3, Knobs: Knobs{
			NumWorkers: workers, PrefetchFactor: prefetch, BatchSize: 8, Shuffle: true, InOrder: true,
			DeviceTransforms: device, PersistentWorkers: persistent,
		}})
		for {
			b, err := l.Next(soon(t))
			if errors.Is(err, ErrEnd) {
				return sums
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := checkContent(b, 11); err != nil {
				t.Fatal(err)
			}
			sums = append(sums, maphash.Bytes(key, b.Host))
			b.Release()
		}
	}
	for _, device := range []bool{false, true} {
		want := run(0, 0, device, false)
		if len(want) != 3*7 {
			t.Fatalf("%d batches, want 21", len(want))
		}
		if slices.Equal(want[:7], want[7:14]) {
			t.Fatal("two epochs are alike")
		}
		for _, workers := range []int{1, 3, 8} {
			if got := run(workers, 1+workers%3, device, workers != 3); !slices.Equal(got, want) {
				t.Errorf("device transforms %v: %d workers give other batches than none", device, workers)
			}
		}
	}
}

// TestForeignEnd: any error of a data set, whatever it wraps, is reported as the sample's. It
// does not count as the end of the data or of the caller's context.
func TestForeignEnd(t *testing.T) {
	for _, foreign := range []error{io.EOF, context.Canceled, context.DeadlineExceeded, ErrEnd, ErrClosed, errAborted} {
		for _, workers := range []int{0, 2} {
			t.Run(fmt.Sprintf("%v, %d workers", foreign, workers), func(t *testing.T) {
				for _, set := range []*numbers{
					{samples: 8, onRead: func(context.Context, int) error { return foreign }},
					{samples: 8, onCode: func(int) error { return fmt.Errorf("cut off: %w", foreign) }},
				} {
					l := open(t, Options{Dataset: set, Epochs: 1, Knobs: Knobs{BatchSize: 2, InOrder: true, NumWorkers: workers}})
					_, err := l.Next(soon(t))
					if _, ok := errors.AsType[*SampleError](err); !ok || !errors.Is(err, foreign) {
						t.Errorf("%#v is not the sample's error", err)
					}
				}
			})
		}
	}
}

func TestFailureSurfacesOnceInTurn(t *testing.T) {
	for _, workers := range []int{0, 1, 4} {
		for _, how := range []string{"read", "decode", "transform", "goexit"} {
			t.Run(fmt.Sprintf("%s with %d workers", how, workers), func(t *testing.T) {
				broken := errors.New("bad sector")
				var left atomic.Int64
				left.Store(2) // attempts that fail
				fail := func(i int) bool { return i == 11 && left.Add(-1) >= 0 }
				set := &numbers{samples: 40}
				var tr mix
				switch how {
				case "read":
					set.onRead = func(_ context.Context, i int) error {
						if fail(i) {
							return broken
						}
						return nil
					}
				case "goexit":
					set.onRead = func(_ context.Context, i int) error {
						if fail(i) {
							runtime.Goexit()
						}
						return nil
					}
				case "decode":
					set.onCode = func(i int) error {
						if fail(i) {
							return broken
						}
						return nil
					}
				case "transform":
					tr.onHost = func(i int) {
						if fail(i) {
							panic(broken)
						}
					}
				}
				l := open(t, Options{Dataset: set, Transform: tr, Epochs: 1, Knobs: Knobs{BatchSize: 4, InOrder: true, NumWorkers: workers}})
				var got []string
				for {
					b, err := l.Next(soon(t))
					if errors.Is(err, ErrEnd) {
						break
					}
					var fault *SampleError
					if errors.As(err, &fault) {
						if fault.Index != 11 || fault.Batch != 2 || fault.Epoch != 0 || !strings.Contains(err.Error(), "sample 11 of numbers") {
							t.Errorf("%v: %+v", err, fault)
						}
						if how != "goexit" && fault.Op != how {
							t.Errorf("op %q, want %q", fault.Op, how)
						}
						if how == "transform" && len(fault.Stack) == 0 {
							t.Error("a panic without a stack")
						}
						if (how == "read" || how == "decode") && !errors.Is(err, broken) {
							t.Errorf("%v does not wrap its cause", err)
						}
						got = append(got, "error")
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := checkContent(b, 0); err != nil {
						t.Error(err)
					}
					got = append(got, fmt.Sprint(b.Samples[0]))
					b.Release()
				}
				want := "0 4 error error 8 12 16 20 24 28 32 36"
				if s := strings.Join(got, " "); s != want {
					t.Errorf("got  %s\nwant %s", s, want)
				}
			})
		}
	}
}

// TestCloseAfterFailure: a caller may close after an error. Nothing hangs or leaks.
func TestCloseAfterFailure(t *testing.T) {
	for _, workers := range []int{0, 3} {
		set := &numbers{samples: 40, onRead: func(_ context.Context, i int) error { return errors.New("gone") }}
		l := open(t, Options{Dataset: set, Knobs: Knobs{BatchSize: 4, InOrder: true, NumWorkers: workers}})
		if _, err := l.Next(soon(t)); err == nil {
			t.Error("no error")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Next(soon(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := l.Set(DefaultKnobs()); !errors.Is(err, ErrClosed) {
			t.Errorf("Set after Close: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	}
}

// stuck is a data set whose reads end only with their context.
func stuck() *numbers {
	return &numbers{samples: 10, onRead: func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}}
}

func TestBlockedNext(t *testing.T) {
	for _, workers := range []int{0, 2} {
		knobs := Knobs{BatchSize: 2, InOrder: true, NumWorkers: workers}
		t.Run(fmt.Sprintf("cancel, %d workers", workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, Options{Dataset: stuck(), Knobs: knobs})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				if _, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want %v", err, context.Canceled)
				}
			})
		})
		t.Run(fmt.Sprintf("close, %d workers", workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t, Options{Dataset: stuck(), Knobs: knobs})
				closed := make(chan error)
				go func() {
					time.Sleep(time.Second)
					closed <- l.Close()
				}()
				if _, err := l.Next(t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("%v, want %v", err, ErrClosed)
				}
				if err := <-closed; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHung: a read that never returns blocks neither Next nor Close, and memory that its worker
// may still write to is not freed.
func TestHung(t *testing.T) {
	for _, workers := range []int{0, 2} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				lent := &locker{}
				set := &numbers{samples: 8, onRead: func(context.Context, int) error { <-gate; return nil }}
				l, err := New(Options{Dataset: set, Transform: mix{}, Alloc: lent, Knobs: Knobs{
					BatchSize: 2, InOrder: true, NumWorkers: workers, PinMemory: true, Timeout: 3 * time.Second,
				}})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				took := func(what string, want time.Duration, err, is error) {
					t.Helper()
					if got := time.Since(start); got != want || !errors.Is(err, is) {
						t.Errorf("%s: %v after %v, want %v after %v", what, err, got, is, want)
					}
					start = time.Now()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = l.Next(ctx)
				took("the caller's end", time.Second, err, context.DeadlineExceeded)
				_, err = l.Next(t.Context())
				took("the timeout", 3*time.Second, err, ErrTimeout)
				if !strings.Contains(err.Error(), "sample 0 of numbers") {
					t.Errorf("%v: does not say what it waited for", err)
				}
				err = l.Close()
				took("the close", patience, err, ErrHung)
				if lent.leaks() == "" {
					t.Error("the memory of a batch that is being written was freed")
				}
				close(gate)
			})
		})
	}
}

// TestCancelLosesNothing cancels inline loads and goes on.
func TestCancelLosesNothing(t *testing.T) {
	slow := &numbers{samples: 6, onRead: func(ctx context.Context, _ int) error {
		select {
		case <-time.After(time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	l := open(t, Options{Dataset: slow, Epochs: 1, Knobs: Knobs{BatchSize: 3, InOrder: true}})
	var got []int32
	for cancelled := 0; ; {
		ctx, cancel := context.WithCancel(soon(t))
		if cancelled < 3 {
			time.AfterFunc(500*time.Microsecond, cancel)
		}
		b, err := l.Next(ctx)
		cancel()
		if errors.Is(err, context.Canceled) {
			cancelled++
			continue
		}
		if errors.Is(err, ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Samples...)
		b.Release()
	}
	if !slices.Equal(got, []int32{0, 1, 2, 3, 4, 5}) {
		t.Errorf("delivered %v", got)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		set := &numbers{samples: 10, onRead: func(context.Context, int) error { <-gate; return nil }}
		l := open(t, Options{Dataset: set, Hold: 1, Knobs: Knobs{BatchSize: 2, InOrder: true, NumWorkers: 2, PrefetchFactor: 1, Timeout: 5 * time.Second}})
		start := time.Now()
		_, err := l.Next(t.Context())
		if !errors.Is(err, ErrTimeout) || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		want := "wait for a batch: none within timeout=5s from num_workers=2, 2 loading (sample 0 of numbers); raise num_workers or timeout, or lower batch_size"
		if got := errorText(err); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		close(gate)
		b, err := l.Next(t.Context())
		if err != nil || b.Seq != 0 {
			t.Fatalf("after the timeout: %+v, %v", b, err)
		}
		// This holds every slot: 2 in flight and 1.
		for range 2 {
			if _, err := l.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err = l.Next(t.Context()); !strings.Contains(errorText(err), "the caller holds all 3 slots") {
			t.Errorf("holding all slots: %v", err)
		}
	})
}

func TestReleaseWakesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Dataset: &numbers{samples: 10}, Knobs: Knobs{BatchSize: 2, InOrder: true}})
		b, err := l.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { b.Release(); b.Release() })
		start := time.Now()
		if _, err = l.Next(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s := l.Stats(); s.Held != 1 || s.Slots != 1 {
			t.Errorf("released twice: %+v", s)
		}
	})
}

func TestOneCallerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, Options{Dataset: stuck(), Knobs: Knobs{BatchSize: 2, NumWorkers: 1}})
		go l.Next(t.Context())
		synctest.Wait()
		if _, err := l.Next(t.Context()); !strings.Contains(errorText(err), "another goroutine is in Next") {
			t.Errorf("second caller: %v", err)
		}
		l.Close()
	})
}

func TestReleaseAfterClose(t *testing.T) {
	var alloc locker
	l := open(t, Options{Dataset: &numbers{samples: 10}, Alloc: &alloc, Hold: 2, Knobs: Knobs{BatchSize: 2, NumWorkers: 1, PinMemory: true}})
	b, err := l.Next(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if !b.Pinned || l.Stats().PinnedBytes != int64(len(b.Host)) {
		t.Errorf("the held batch went with Close: %+v", l.Stats())
	}
	if err := checkContent(b, 0); err != nil {
		t.Error(err)
	}
	b.Release()
	if s := alloc.leaks(); s != "" || l.Stats().SlotBytes != 0 {
		t.Error(s, l.Stats())
	}
}

// TestWorkerPanicOutsideABatch: if a worker cannot even start, Next returns the error from then
// on. The process does not end, and the loader does not hang.
func TestWorkerPanicOutsideABatch(t *testing.T) {
	l := open(t, Options{Dataset: &numbers{samples: 40}, Knobs: Knobs{BatchSize: 4, InOrder: true}})
	b, err := l.Next(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	l.input.info.Bytes = -1 << 40 // the scratch of a new worker cannot be made
	if err := l.Set(Knobs{BatchSize: 4, InOrder: true, NumWorkers: 3}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Next(soon(t)); err == nil || !strings.Contains(err.Error(), "panicked: runtime error: makeslice") {
			t.Fatalf("err = %v", err)
		}
	}
	if err := l.Set(Knobs{BatchSize: 4, NumWorkers: 2, PersistentWorkers: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Workers != 0 {
		t.Errorf("%d workers after Close", s.Workers)
	}
}
