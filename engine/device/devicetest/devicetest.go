// Package devicetest checks any device against the contract, and its operations
// against their Go references: one table of operations in three modes. Run
// compares results and gradients, Bench measures speed. A device that does no
// arithmetic is held to the contract alone.
package devicetest

import (
	"runtime"
	"testing"
	"unsafe"

	"dev.gpustall/engine/device"
)

// Run checks dev. It leaves dev open and holding nothing.
func Run(t *testing.T, dev device.Device) {
	t.Helper()
	for _, c := range contract {
		t.Run("contract/"+c.name, func(t *testing.T) {
			if c.computes && !dev.Info().Computes {
				t.Skip("the device does no arithmetic")
			}
			c.run(newRig(t, dev))
		})
	}
	if !dev.Info().Computes {
		return
	}
	for _, c := range Cases() {
		t.Run("op/"+c.Name, func(t *testing.T) { c.check(newRig(t, dev)) })
	}
	for _, g := range gradients() {
		t.Run("gradient/"+g.name, func(t *testing.T) { g.check(newRig(t, dev)) })
	}
}

// rig is a device within one test: it fails the test on an error and gives
// everything back at its end.
type rig struct {
	*testing.T
	dev  device.Device
	main device.Stream
}

// streams are kept per device, because the contract has no way to free one.
var streams = map[device.Device][2]device.Stream{}

func newRig(t *testing.T, dev device.Device) *rig {
	t.Helper()
	s, ok := streams[dev]
	if !ok {
		for i := range s {
			var err error
			if s[i], err = dev.NewStream([...]string{"test", "test copy"}[i]); err != nil {
				t.Fatal(err)
			}
		}
		streams[dev] = s
	}
	return &rig{t, dev, s[0]}
}

// second is another stream than main.
func (r *rig) second() device.Stream { return streams[r.dev][1] }

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) alloc(n int) device.Buffer {
	r.Helper()
	b, err := r.dev.Alloc(n)
	r.must(err)
	r.Cleanup(func() { r.dev.Free(b) })
	return b
}

func (r *rig) hostBytes(n int) []byte {
	r.Helper()
	b, err := r.dev.AllocHost(n)
	r.must(err)
	r.Cleanup(func() { r.dev.FreeHost(b) })
	return b
}

func (r *rig) event() device.Event {
	r.Helper()
	e, err := r.dev.NewEvent()
	r.must(err)
	r.Cleanup(func() { r.dev.FreeEvent(e) })
	return e
}

func (r *rig) prepare(ls ...device.Launch) device.Program {
	r.Helper()
	p, err := r.dev.Prepare(ls)
	r.must(err)
	r.Cleanup(func() { r.dev.Release(p) })
	return p
}

// finish blocks until all work on s is done.
func (r *rig) finish(s device.Stream) {
	r.Helper()
	e, err := r.dev.NewEvent()
	r.must(err)
	r.must(r.dev.Record(s, e))
	r.must(r.dev.Sync(e))
	r.dev.FreeEvent(e)
}

// put and get copy and wait.
func (r *rig) put(b device.Buffer, src []byte) {
	r.Helper()
	r.must(r.dev.CopyIn(r.main, b, src))
	r.finish(r.main)
	runtime.KeepAlive(src) // the device may read it until now
}

func (r *rig) get(b device.Buffer) []byte {
	r.Helper()
	dst := make([]byte, b.Size)
	r.must(r.dev.CopyOut(r.main, dst, b))
	r.finish(r.main)
	return dst
}

// floatBytes views v as bytes.
func floatBytes(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
