package loader

import "dev.gpustall/engine/trace"

// Options are what a loader is made of.
type Options struct {
	Dataset   Dataset
	Transform Transform
	Seed      int64
	Recorder  *trace.Recorder // nil records nothing
	Alloc     Allocator       // for page-locked slots
	PinNote   string          // why pin_memory has no effect on this device; empty when it has one
	Epochs    int             // 0: endless
	Knobs     Knobs
	// Hold is how many batches the caller keeps unreleased at the most, the one
	// last returned by Next included. The loader has that many slots on top of
	// num_workers x prefetch_factor, so that Next cannot wait for a Release that
	// only its caller can do. 0 means 1.
	Hold int
}
