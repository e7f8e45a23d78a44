//go:build linux

package host

import (
	"runtime"
	"testing"
)

// A thread's times only grow, each thread has its own, and reading them allocates nothing.
func TestMeter(t *testing.T) {
	m, why := NewMeter()
	if m == nil {
		t.Skip(why.Why)
	}
	done := make(chan bool)
	for range 4 {
		go func() {
			runtime.LockOSThread() // not unlocked: the thread ends, and its file goes stale
			m, _ := NewMeter()
			waited, ok := m.Waited()
			cpu := m.CPU()
			for range 1000 {
				_, known := m.Waited()
				ok = ok && known
			}
			after, _ := m.Waited()
			ok = ok && after >= waited && m.CPU() > cpu
			done <- ok
		}()
	}
	for range 4 {
		if !<-done {
			t.Error("a reading failed, or times went back")
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if n := testing.AllocsPerRun(100, func() { m.Waited(); m.CPU() }); n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

func BenchmarkMeter(b *testing.B) {
	m, why := NewMeter()
	if m == nil {
		b.Skip(why.Why)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.Run("waited", func(b *testing.B) {
		for b.Loop() {
			m.Waited()
		}
	})
	b.Run("cpu", func(b *testing.B) {
		for b.Loop() {
			m.CPU()
		}
	})
	b.Run("scheduler", func(b *testing.B) {
		var s Scheduler
		for b.Loop() {
			s.Waited()
		}
	})
}
