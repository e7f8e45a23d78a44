package machine

import (
	"os"
	"runtime/debug"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// LimitHeap has the garbage collector keep the garbage to garbageBytes where all that is
// planned is in use, and the Go heap within what the process may hold beside what lies
// outside of that heap. Left alone it lets garbage grow to as much as is in use, which no
// plan counts; collecting more often costs little, because nearly all that is in use is
// spans and batches, in which there are no pointers to follow. What the user set (GOGC,
// GOMEMLIMIT) stays.
func (d *Device) LimitHeap(m trace.HostMemory) {
	outside := m.Device.Total()
	if d.Preset == nil { // an emulated card's page-locked memory is in the heap
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
