//go:build linux

package tui

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// soakSteps is how many steps BenchmarkSoak runs; make soak sets it.
var soakSteps, _ = strconv.Atoi(os.Getenv("GPUSTALL_SOAK"))

// emulated is a clock that the steps move.
type emulated struct{ ns atomic.Int64 }

func (e *emulated) Now() int64 { return e.ns.Load() }

// BenchmarkSoak is a long run with live changes. It has emulated steps of 1 ms, four
// workers and a change every 2,000 steps. The run is recorded, analysed, stored, and
// watched by a screen of 200x50 at ten frames a second. The benchmark tells the
// resident memory as the run goes on, and how long the session then takes to open.
func BenchmarkSoak(b *testing.B) {
	if soakSteps == 0 {
		b.Skip("for minutes; make soak runs it")
	}
	path := filepath.Join(b.TempDir(), "soak"+store.Ext)
	meta := trace.Meta{ID: "soak", Model: "soak", Samples: 50_000, Emulated: true}
	file, err := store.Create(path, meta)
	if err != nil {
		b.Fatal(err)
	}
	clock := new(emulated)
	rec, session := trace.NewRecorder(clock, 1<<14), trace.NewSession(meta)
	c := trace.NewCollector(rec, session, attribution.NewAnalyzer(0), file)
	c.Start()
	m := New(Options{Source: session})
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	t0, shown := time.Now(), time.Now()
	var half int64
	for i := range int32(soakSteps) {
		soakStep(rec, clock, i)
		if i%16 == 15 { // as fast as the rings are drained
			for i-session.Snapshot(0, 0).Last.Index > 2000 {
				time.Sleep(time.Millisecond)
			}
		}
		if i%4096 == 4095 { // and as fast as the file is written
			for stored := int32(0); i-stored > 16_384; time.Sleep(10 * time.Millisecond) {
				if stored, err = file.FirstAfter(math.MaxInt64); err != nil {
					b.Fatal(err)
				}
			}
		}
		if i%64 == 0 && time.Since(shown) > 100*time.Millisecond {
			shown = time.Now()
			if cmd := m.look(); cmd != nil {
				m.Update(cmd())
			}
			m.View()
		}
		if n := int(i) + 1; n*4%soakSteps == 0 {
			rss := resident(b)
			b.Logf("%9d steps: %4d MB resident, after %.0f s", n, rss>>20, time.Since(t0).Seconds())
			if n*2 == soakSteps {
				half = rss
			}
			b.ReportMetric(float64(rss>>20), fmt.Sprintf("MB-at-%d%%", 100*n/soakSteps))
		}
	}
	b.ReportMetric(float64(resident(b))/float64(half), "end/half")
	if err := c.Stop(trace.Outcome{Status: "finished", Ended: clock.Now()}); err != nil {
		b.Fatal(err)
	}
	if info, err := os.Stat(path); err == nil {
		b.ReportMetric(float64(info.Size()>>20), "MB-of-file")
	}
	snap := session.Snapshot(0, math.MaxInt64)
	t0 = time.Now()
	back, err := store.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(t0).Seconds(), "s-to-open")
	got := back.Snapshot(0, 0)
	if got.Total != snap.Total || snap.Total.Steps != int64(soakSteps) || len(got.Segments) != len(snap.Segments) {
		b.Errorf("the file has %d steps in %d segments, the run had %d in %d", got.Total.Steps, len(got.Segments), snap.Total.Steps, len(snap.Segments))
	}
	runtime.KeepAlive(session)
}

// soakStep records one step of 1 ms: a batch of two phases on one of four workers,
// a wait, a copy and the compute.
func soakStep(rec *trace.Recorder, clock *emulated, i int32) {
	at := int64(i) * 1e6
	segment := i / 2000
	if i%2000 == 0 {
		rec.Segment(trace.Segment{Index: segment, Start: at, FirstStep: i, Reason: "num_workers changed", Knobs: []knob.Setting{
			{Name: "num_workers", Value: strconv.Itoa(int(segment%8) + 1)}, {Name: "batch_size", Value: "32"}, {Name: "pin_memory", Value: "on"},
		}})
	}
	if i%500 == 0 {
		rec.Gauge("queue_ready", float64(i/500%5))
		rec.Gauge("queue_cap", 8)
	}
	wait := int64(1+i%5) * 50_000
	w := rec.Track(trace.Worker(int(i % 4)))
	w.Record(trace.Span{Start: at - 3e6, End: at - 2e6, Step: -1, Batch: i, Kind: trace.KindRead})
	w.Record(trace.Span{Start: at - 2e6, End: at + wait, Step: -1, Batch: i, Kind: trace.KindDecode})
	loop := rec.Track(trace.TrackStep)
	loop.Record(trace.Span{Start: at, End: at + wait, Step: i, Batch: i, Kind: trace.KindNext})
	loop.Record(trace.Span{Start: at + wait, End: at + wait + 20_000, Step: i, Batch: i, Kind: trace.KindEnqueue})
	rec.Track(trace.TrackCopy).Record(trace.Span{Start: at + wait, End: at + wait + 30_000, Step: i, Batch: i, Kind: trace.KindCopy})
	rec.Track(trace.TrackCompute).Record(trace.Span{Start: at + wait + 30_000, End: at + 1e6, Step: i, Batch: i, Kind: trace.KindCompute})
	s := trace.Step{Index: i, Epoch: i / 1562, Segment: segment, Batch: i, Samples: 32, Correct: 4, Loss: 2}
	if i%2000 < 8 {
		s.Flags = trace.FlagTransition
	}
	clock.ns.Store(at + 1e6)
	rec.Step(s)
}

// resident returns the resident memory of the process, in bytes.
func resident(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n << 10
}
