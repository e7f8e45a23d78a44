// Package device is the contract between the engine and what it trains on, and
// nothing else.
//
// Work is enqueued on streams and runs asynchronously, in order within a stream
// and unordered between streams unless an event orders them. The host memory
// that a copy reads or writes must stay untouched until an event recorded after
// the copy has completed.
package device

import (
	"errors"
	"time"
)

// Stream and Event are handles of one device. The zero value is invalid.
type (
	Stream int32
	Event  int32
)

// Program is a prepared sequence of launches.
type Program int32

// Buffer is a range of device memory. Addr means nothing to other devices.
type Buffer struct {
	Addr uint64
	Size int // bytes
}

// Slice returns the n bytes at offset off. It panics when they lie outside b.
func (b Buffer) Slice(off, n int) Buffer {
	if off < 0 || n < 0 || off+n > b.Size {
		panic("device: Buffer.Slice out of range")
	}
	return Buffer{Addr: b.Addr + uint64(off), Size: n}
}

// Operation is what a launch computes: one of package kernels' operations, with
// its shape. A device switches on its concrete type.
type Operation interface {
	Name() string   // "conv_forward"
	FLOPs() float64 // floating-point operations of one launch
	Bytes() float64 // fewest bytes of device memory moved by one launch
}

// Launch is one operation on buffers, in the order the operation documents.
type Launch struct {
	Op    Operation
	Bufs  []Buffer
	Layer string // "layer1.0.conv1", for the table of device ops
	Phase string // one of the Phases, for the same; may be empty
}

// Phases of a training step.
const (
	PhaseInput     = "input" // the transforms that the device makes
	PhaseForward   = "forward"
	PhaseLoss      = "loss"
	PhaseBackward  = "backward"
	PhaseRecompute = "recompute" // forward again, for the backward pass of a checkpointed block
	PhaseOptimizer = "optimizer"
)

// Info describes a device.
type Info struct {
	Kind     string // "cpu", "cuda", "emu"
	Name     string // for people
	Emulated bool   // its times are modelled, or an emulated driver's: they say nothing about the real device
	Computes bool   // it does arithmetic, so it has a loss and gradients
	Memory   int64  // bytes in all; 0 when unknown
	OnHost   bool   // its memory is the host's
	UUID     string // a GPU's, 8-4-4-4-12 hexadecimal digits; empty when unknown
	PinNote  string // why pin_memory has no effect here; empty when it has one
	TuneNote string // why autotune has no effect here; empty when it has one
	// Types lists the compute types it runs: "fp32", "tf32", "fp16", "bf16".
	Types    []string
	Mixed    string // the type of Types to train with by default; empty: fp32
	Peaks    Peaks  // of Types; none where they are not known
	TypeNote string // which types do not run on the device's fast units; empty when all do
}

// Device is an accelerator. Its methods are called by one goroutine, the
// engine's; AllocHost and FreeHost may be called by any.
type Device interface {
	Info() Info

	Alloc(n int) (Buffer, error)
	Free(Buffer)
	AllocHost(n int) ([]byte, error) // page-locked where the device has that
	FreeHost([]byte)

	CopyIn(s Stream, dst Buffer, src []byte) error
	CopyOut(s Stream, dst []byte, src Buffer) error

	Prepare(ls []Launch) (Program, error) // resolves kernels, scratch memory and geometry, once
	Launch(s Stream, p Program) error     // enqueues it all; allocates nothing
	Release(p Program)

	NewStream(name string) (Stream, error)
	NewEvent() (Event, error)
	FreeEvent(Event)
	Record(s Stream, e Event) error
	Wait(s Stream, e Event) error                  // work enqueued on s from now on waits for e's latest Record
	Query(e Event) (bool, error)                   // whether e's latest Record has completed
	Sync(e Event) error                            // blocks until it has
	Elapsed(from, to Event) (time.Duration, error) // both completed

	MemoryPeak() int64 // bytes allocated at the most, scratch included
	Close() error
}

// Errors that devices wrap.
var (
	ErrNoDevice    = errors.New("no such device")       // exit code 3
	ErrOutOfMemory = errors.New("out of device memory") // the message names the knob to lower
	ErrUnsupported = errors.New("not supported on this device")
	ErrNotReady    = errors.New("not completed") // Elapsed of an event whose Record has not completed
)
