//go:build unix

package tui

import (
	"syscall"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/internal/demo"
)

// busy returns a screen with eight workers, on which everything moves.
func busy(t testing.TB, w, h int) *screen {
	run := demo.New(nil)
	_ = run.Set([]knob.Setting{{Name: "num_workers", Value: "8"}, {Name: "inject_cpu", Value: "1ms"}})
	run.Until(6000)
	return newScreen(t, run, Options{Control: run}, w, h)
}

// BenchmarkFrame draws a frame of 200x50, with and without the panel of device ops. It
// may take at most 150 us and 64 allocations.
func BenchmarkFrame(b *testing.B) {
	for _, name := range []string{"main", "ops"} {
		b.Run(name, func(b *testing.B) {
			s := busy(b, 200, 50)
			if name == "ops" {
				run := timedSession()
				s = newScreen(b, run, Options{Control: run}, 200, 50)
				s.press("6")
			}
			b.ReportAllocs()
			t0 := cpuTime()
			for b.Loop() {
				s.frame.dirty = true
				s.View()
			}
			b.ReportMetric(float64(cpuTime()-t0)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of the process in ns. On a shared machine it says more than the wall
// clock.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkPicture is the other half of a tick: it makes the picture of a snapshot. It does not take
// the snapshot.
func BenchmarkPicture(b *testing.B) {
	s := busy(b, 200, 50)
	b.ReportAllocs()
	for b.Loop() {
		s.session.pic.Compute(s.session.live, s.session.live.Now)
		s.panels.timeline.Update(&s.session.pic, s.session.live.Spans)
		s.panels.timeline.Explain(s.See(s.panels.timeline))
	}
}

func TestFrameAllocations(t *testing.T) {
	for _, size := range sizes {
		s := busy(t, size[0], size[1])
		n := testing.AllocsPerRun(20, func() {
			s.frame.dirty = true
			s.View()
		})
		if n > 64 {
			t.Errorf("a frame of %dx%d takes %.0f allocations, want at most 64", size[0], size[1], n)
		}
		t.Logf("%dx%d: %.0f allocations", size[0], size[1], n)
	}
}

// TestCachedFrame: View costs nothing while nothing changed.
func TestCachedFrame(t *testing.T) {
	s := busy(t, 200, 50)
	first := s.View()
	if n := testing.AllocsPerRun(20, func() { s.View() }); n != 0 {
		t.Errorf("a cached frame takes %.0f allocations", n)
	}
	if s.View() != first {
		t.Error("the cached frame changed")
	}
}

// BenchmarkTick is all the work of a tick on a real session with the spans of eight
// workers, including the snapshot.
func BenchmarkTick(b *testing.B) {
	run := demo.New(nil)
	_ = run.Set([]knob.Setting{{Name: "num_workers", Value: "8"}, {Name: "inject_cpu", Value: "1ms"}})
	run.Until(30_000)
	s := newScreen(b, run, Options{Control: run}, 200, 50)
	s.o.Source = trace.Restore(run.Snapshot(0, 1<<62))
	b.ReportAllocs()
	t0 := cpuTime()
	for b.Loop() {
		s.refresh(time.Now(), true)
		s.frame.dirty = true
		s.View()
	}
	b.ReportMetric(float64(cpuTime()-t0)/float64(b.N), "cpu-ns/op")
}
