package command

import (
	"fmt"
	"os"
	"runtime/debug"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// planned is the device memory planned before the run, beside the measured peak.
type planned struct {
	Total       int64 `json:"total_bytes"`
	Activations int64 `json:"activations_bytes"`
	Parameters  int64 `json:"parameters_bytes"`
	Inputs      int64 `json:"inputs_bytes"`
	Kernels     int64 `json:"kernels_bytes"`
}

func planMemory(m trace.Memory) planned {
	return planned{m.Total(), m.Activations, m.Parameters, m.Inputs, m.Kernels}
}

// hostPlanned is the memory of the host planned before the run, beside the measured peak.
type hostPlanned struct {
	Total   int64   `json:"total_bytes"`
	Batches int64   `json:"batches_bytes"`
	Pinned  int64   `json:"pinned_bytes"` // of them
	Workers int64   `json:"workers_bytes"`
	Device  planned `json:"device"` // what the device keeps on the host
	Session int64   `json:"session_bytes"`
	Saved   int64   `json:"checkpoint_bytes,omitempty"`
	Process int64   `json:"process_bytes"`
	Mapped  int64   `json:"mapped_bytes,omitempty"` // beside the total
}

// planHostMemory is nil where nothing was planned.
func planHostMemory(m trace.HostMemory) *hostPlanned {
	if m.Total() == 0 {
		return nil
	}
	return &hostPlanned{m.Total(), m.Batches, m.Pinned, m.Workers, planMemory(m.Device), m.Session, m.Saved, m.Process, m.Mapped}
}

// limitHeap has the garbage collector keep the garbage to garbageBytes where all that is
// planned is in use, and the Go heap within what the process may hold beside what lies
// outside of that heap. Left alone it lets garbage grow to as much as is in use, which no
// plan counts; collecting more often costs little, because nearly all that is in use is
// spans and batches, in which there are no pointers to follow. What the user set (GOGC,
// GOMEMLIMIT) stays.
func (d *opened) limitHeap(m trace.HostMemory) {
	outside := m.Device.Total()
	if d.preset == nil { // an emulated card's page-locked memory is in the heap
		outside += m.Pinned
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent(m.Total() - outside))
	}
	const spare = 8 << 20 // of memory that the kernel keeps for the process, and more by its size: page tables
	if allowed := host.ReadMemory().Allowed(); allowed > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(allowed-allowed/64-spare-outside, spare))
	}
}

// garbageBytes is how much garbage there may be.
const garbageBytes = 48 << 20

// gcPercent is the garbage that there may be (GOGC) in percent of a heap of so many bytes.
func gcPercent(heap int64) int { return int(min(max(100*garbageBytes/max(heap, 1), 10), 100)) }

// tunedKernel is the variant of a kernel that the run took, and what it gains on
// the planner's first guess by the time of one launch each.
type tunedKernel struct {
	Op      string `json:"op"`
	Layer   string `json:"layer"` // the first with this shape
	Variant string `json:"variant"`
	First   string `json:"first_guess"`
	Time    number `json:"launch_s"`
	Was     number `json:"first_guess_launch_s"`
	Gain    number `json:"gain"` // share of the first guess's time saved
	Cached  bool   `json:"cached"`
}

func tunedKernels(ts []device.Tuned) (out []tunedKernel) {
	for _, t := range ts {
		k := tunedKernel{
			Op: t.Op, Layer: t.Layer, Variant: t.Variant, First: t.First, Cached: t.Cached,
			Time: seconds(int64(t.Time)), Was: seconds(int64(t.FirstTime)),
		}
		k.Gain = number(float64(t.FirstTime-t.Time) / float64(t.FirstTime)) // none where it was not timed
		out = append(out, k)
	}
	return out
}

// tunedText says what tuning bought, by the times of the kernels alone.
func tunedText(ks []tunedKernel) string {
	var now, was float64
	changed := 0
	for _, k := range ks {
		now, was = now+float64(k.Time), was+float64(k.Was)
		if k.Variant != k.First {
			changed++
		}
	}
	if was == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d kernels take another variant than the planner's guess, which saves %s of their time",
		changed, len(ks), units.Prose.Percent((was-now)/was))
}
