package machine

import (
	"os"
	"runtime/debug"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// LimitHeap sets the garbage collector so that the process stays within its plan. While all planned
// memory is in use, there is at most garbageBytes of garbage, or a tenth of the heap if that is
// more. The Go heap stays within what the process may hold besides the memory outside of the heap.
//
// By default the garbage may grow to the size of the memory in use, which no plan counts.
// Collecting more often costs little, because nearly all memory in use is spans and batches,
// which hold no pointers to follow. The user's own GOGC and GOMEMLIMIT stay.
func (d *Device) LimitHeap(m trace.HostMemory) {
	outside := m.Device.Total()
	if d.Preset == nil { // the page-locked memory of an emulated GPU is in the heap
		outside += m.Pinned
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent(m.Total() - outside))
	}
	const spare = 8 << 20 // page tables and other memory that the kernel keeps for the process
	if allowed := host.ReadMemory().Allowed(); allowed > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(allowed-allowed/64-spare-outside, spare))
	}
}

// garbageBytes is how many bytes of garbage there may be. A large heap may have more: a tenth of
// its size. A small one may have less: as much as its size.
const garbageBytes = 48 << 20

// gcPercent returns GOGC for a heap of that many bytes, which is the allowed garbage in percent
// of the heap.
func gcPercent(heap int64) int { return int(min(max(100*garbageBytes/max(heap, 1), 10), 100)) }
