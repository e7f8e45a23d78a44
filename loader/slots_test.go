package loader

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"dev.gpustall/engine/trace"
)

// TestPinMemory switches pin_memory while batches flow.
func TestPinMemory(t *testing.T) {
	for _, workers := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			var alloc locker
			k := Knobs{BatchSize: 4, InOrder: true, NumWorkers: workers, PinMemory: true}
			set := func(l *Loader, k Knobs) {
				if err := l.Set(k); err != nil {
					t.Fatal(err)
				}
			}
			tracks := record(t, Options{Dataset: &numbers{samples: 200}, Alloc: &alloc, Epochs: 1, Hold: 2, Knobs: k}, func(l *Loader, b *Batch) {
				if uintptr(unsafe.Pointer(&b.Host[0]))%8 != 0 {
					t.Error("not aligned")
				}
				s := l.Stats()
				switch {
				case b.Index == 15:
					if s.PinnedBytes != s.SlotBytes || s.SlotBytes != int64(s.Slots*len(b.Host)) {
						t.Errorf("pinned: %+v", s)
					}
					k.PinMemory = false
					set(l, k)
				case b.Index == 30:
					if s.PinnedBytes != 0 || uintptr(unsafe.Pointer(&b.Host[0]))%page != 0 {
						t.Errorf("pageable: %+v", s)
					}
					k.PinMemory = true
					set(l, k)
				case b.Index < 16 && !b.Pinned, b.Index > 24 && b.Index < 31 && b.Pinned, b.Index > 40 && !b.Pinned:
					t.Errorf("batch %d: pinned %v", b.Index, b.Pinned)
				}
			})
			slots := workers*2 + 2
			if n := alloc.all.Load(); n != int64(2*slots) {
				t.Errorf("%d page-locked allocations for 2 x %d slots", n, slots)
			}
			if n := count(tracks, trace.KindPin); n != 2*slots {
				t.Errorf("%d pin spans, want %d", n, 2*slots)
			}
			if s := alloc.leaks(); s != "" {
				t.Error(s)
			}
		})
	}
}

func TestPinMemoryWithoutEffect(t *testing.T) {
	var alloc locker
	l := open(t, Options{Dataset: &numbers{samples: 8}, Alloc: &alloc, PinNote: "no effect here", Epochs: 1, Knobs: Knobs{BatchSize: 4, PinMemory: true}})
	b, err := l.Next(soon(t))
	if err != nil || b.Pinned || alloc.all.Load() != 0 {
		t.Errorf("%v, pinned %v, %d locked", err, b.Pinned, alloc.all.Load())
	}
}

// TestPinFails: the batch is delivered once pin_memory is off again.
func TestPinFails(t *testing.T) {
	for _, workers := range []int{0, 2} {
		var alloc locker
		alloc.fail.Store(true)
		k := Knobs{BatchSize: 4, InOrder: true, NumWorkers: workers, PinMemory: true}
		l := open(t, Options{Dataset: &numbers{samples: 8}, Alloc: &alloc, Epochs: 1, Knobs: k})
		_, err := l.Next(soon(t))
		if !strings.Contains(errorText(err), "turn pin_memory off or lower batch_size") {
			t.Errorf("%v", err)
		}
		k.PinMemory = false
		if err := l.Set(k); err != nil {
			t.Fatal(err)
		}
		var got []int32
		for failures := 0; ; {
			b, err := l.Next(soon(t))
			if errors.Is(err, ErrEnd) {
				break
			}
			if err != nil {
				if failures++; failures > 1 { // the second batch had failed too
					t.Fatal(err)
				}
				continue
			}
			got = append(got, b.Samples...)
			b.Release()
		}
		if fmt.Sprint(got) != "[0 1 2 3 4 5 6 7]" {
			t.Errorf("delivered %v", got)
		}
	}
}

// TestMemoryFollowsKnobs: once each slot was used again, the slots have as many bytes as the
// knobs ask for.
func TestMemoryFollowsKnobs(t *testing.T) {
	info := (&numbers{samples: 1 << 16}).Info()
	l := open(t, Options{Dataset: &numbers{samples: 1 << 16}, Hold: 2, Knobs: Knobs{BatchSize: 64, InOrder: true}})
	for _, k := range []Knobs{
		{BatchSize: 64, NumWorkers: 2, PrefetchFactor: 2},
		{BatchSize: 4096, NumWorkers: 2, PrefetchFactor: 2},
		{BatchSize: 4096, NumWorkers: 2, PrefetchFactor: 2, DeviceTransforms: true},
		{BatchSize: 1024, NumWorkers: 1, PrefetchFactor: 1},
		{BatchSize: 64},
	} {
		k.InOrder = true
		if err := l.Set(k); err != nil {
			t.Fatal(err)
		}
		for range 24 {
			b, err := l.Next(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		slots := k.InFlight() + 2
		size := NewLayout(info, k.BatchSize, k.DeviceTransforms).Size
		if s := l.Stats(); s.Slots != slots || s.SlotBytes < int64(slots*size) || s.SlotBytes > int64(slots*(size+size/16+page)) {
			t.Errorf("%+v: %+v, want %d slots of %d bytes", k, s, slots, size)
		}
	}
}

// TestPrefetchLimit: no more than num_workers x prefetch_factor batches are ever in flight.
func TestPrefetchLimit(t *testing.T) {
	k := Knobs{BatchSize: 2, InOrder: true, NumWorkers: 3, PrefetchFactor: 2}
	l := open(t, Options{Dataset: &numbers{samples: 1000}, Epochs: 1, Hold: 3, Knobs: k})
	seen := 0
	for {
		s := l.Stats()
		if s.InFlight > 6 || s.Ready > s.InFlight || s.Capacity != 6 || s.Workers > 3 {
			t.Fatalf("%+v", s)
		}
		seen = max(seen, s.InFlight)
		b, err := l.Next(soon(t))
		if errors.Is(err, ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if seen == 0 {
		t.Error("nothing was ever in flight")
	}
}
