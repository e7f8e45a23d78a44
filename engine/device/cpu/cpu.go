// Package cpu trains on the host's threads behind the device contract. Each stream is a
// goroutine that runs its commands in order while the caller goes on. So copies overlap
// compute as they do on an accelerator. Events carry times from one monotonic clock.
package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device"
	cpukernels "dev.gpustall/kernels/cpu"
)

// queueDepth is how many commands a stream holds before an enqueue blocks, as
// a GPU's launch queue does.
const queueDepth = 1024

// PinNote is why pin_memory changes nothing here.
const PinNote = "the cpu device reads host memory where it lies, so page-locking it saves no copy"

// typeNotes are the notes on bf16, by the instructions that multiply it.
var typeNotes = map[string]string{
	"amx":         "",
	"avx512_bf16": "this processor has AVX512_BF16 and no AMX: in bf16, convolutions of 3x3 are computed in float32 on rounded values, and no faster",
	"":            "this processor has neither AMX nor AVX512_BF16: bf16 is computed in float32 on rounded values, which saves memory and no time",
}

// Device is the host as an accelerator. It implements device.Device, device.OpTimer,
// device.Overheader, device.HostStreams and device.HostKernels.
type Device struct {
	start time.Time // of the events' clock
	info  device.Info
	pool  *cpukernels.Pool
	mem   memory
	turn  sync.Mutex // held by the program that runs

	watch watch

	fault atomic.Pointer[failure] // the first kernel panic; every later call reports it

	// mu guards the tables, which change rarely. Only the engine calls the methods
	// that read them, but Free and Close must not race with a Prepare.
	mu       sync.Mutex
	closed   bool
	streams  device.Slots[device.Stream, stream]
	events   device.Slots[device.Event, event]
	programs device.Slots[device.Program, program]
	scratch  *block // shared by all programs
}

type failure struct{ err error }

var (
	_ device.Device      = (*Device)(nil)
	_ device.OpTimer     = (*Device)(nil)
	_ device.Overheader  = (*Device)(nil)
	_ device.HostStreams = (*Device)(nil)
	_ device.HostKernels = (*Device)(nil)
)

// Open returns the host as a device. Its kernels use the given number of
// threads; 0 means as many as there are cores for this process.
func Open(threads int) (*Device, error) {
	if threads < 0 {
		return nil, errs.New("open device", "cpu", fmt.Sprintf("%d threads is not a count", threads), "use 0 for all")
	}
	if threads == 0 {
		threads = host.Cores()
	}
	d := &Device{start: time.Now(), pool: cpukernels.NewPool(threads)}
	d.watch.open(d)
	d.mem.total = totalMemory()
	s := "s"
	if threads == 1 {
		s = ""
	}
	name := fmt.Sprintf("cpu (%s, %d thread%s, %s)", modelName(), threads, s, d.pool.Variant())
	d.info = device.Info{
		Kind: "cpu", Name: name, Computes: true, Memory: d.mem.total, OnHost: true,
		PinNote: PinNote, Types: []string{"fp32", "bf16"}, TypeNote: typeNotes[d.pool.Dots()],
	}
	return d, nil
}

// Info describes the host.
func (d *Device) Info() device.Info { return d.info }

// MemoryPeak returns the most bytes of device memory held at once.
func (d *Device) MemoryPeak() int64 { return d.mem.peak.Load() }

func (d *Device) now() int64 { return int64(time.Since(d.start)) }

// err returns why the device takes no more work, or nil.
func (d *Device) err() error {
	if f := d.fault.Load(); f != nil {
		return f.err
	}
	return nil
}

// fail keeps the first fault. The device is unusable after it, like a GPU's context, because the
// failed kernel may have left anything in memory.
func (d *Device) fail(err error) { d.fault.CompareAndSwap(nil, &failure{err}) }

// drain waits until every stream has run all that was enqueued on it.
func (d *Device) drain() {
	for s := range d.streams.All() {
		s.waitFor(s.enqueued.Load())
	}
}

// Close finishes the work already enqueued, stops the streams and returns all
// memory, the host memory included.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	for s := range d.streams.All() {
		close(s.queue)
	}
	for s := range d.streams.All() {
		<-s.stopped
	}
	d.pool.Close()
	d.programs = device.Slots[device.Program, program]{}
	d.mem.close()
	return d.err()
}
