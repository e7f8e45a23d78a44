//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	cudakernels "dev.gpustall/kernels/cuda"
)

// Device is a GPU. It implements device.Device and all of package device's
// optional interfaces.
type Device struct {
	queues // has the methods for streams and events, and whether the device is closed

	info     device.Info
	gpu      cu.Device
	mem      memory
	host     pinned
	code     library
	tuner    tuner
	programs device.Slots[device.Program, program]

	tamper func(*cudakernels.Plan) // for tests: spoils the plan of a trial
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.OpTimer  = (*Device)(nil)
	_ device.Capturer = (*Device)(nil)
	_ device.Reserver = (*Device)(nil)
	_ device.Tuner    = (*Device)(nil)
)

// Available returns why there is no CUDA device, or nil where there is one.
func Available() error {
	if err := driver.Load(); err != nil {
		if errors.Is(err, driver.ErrNoDriver) {
			return noDevice(err.Error(), "install NVIDIA's driver or take --device cpu")
		}
		return noDevice(fmt.Sprintf("the NVIDIA driver does not start: %v", err), hintGPU)
	}
	n, err := cu.NumDevices()
	if err != nil {
		return noDevice(fmt.Sprintf("counting GPUs: %v", err), hintGPU)
	}
	if n == 0 {
		return noDevice("the driver sees no GPU", "check CUDA_VISIBLE_DEVICES, or take --device cpu")
	}
	return nil
}

// Count returns how many GPUs the driver sees: none where Available fails.
func Count() int {
	if Available() != nil {
		return 0
	}
	n, _ := cu.NumDevices() // Available asked it before
	return n
}

// Open opens a GPU. Errors wrap device.ErrNoDevice when there is no such GPU,
// no driver, or the GPU is older than the kernels.
func Open(c Config) (device.Device, error) {
	if err := Available(); err != nil {
		return nil, opening(c.Ordinal, err)
	}
	n, _ := cu.NumDevices() // Available asked it before
	if c.Ordinal < 0 || c.Ordinal >= n {
		return nil, opening(c.Ordinal, noDevice(fmt.Sprintf("there are %d, numbered from 0", n), "choose one of them, or take --device cpu"))
	}
	d := &Device{}
	if err := d.open(c); err != nil {
		return nil, opening(c.Ordinal, err)
	}
	return d, nil
}

func (d *Device) open(c Config) (err error) {
	if d.gpu, err = cu.GetDevice(c.Ordinal); err != nil {
		return errs.Reason(err.Error(), "").Because(device.ErrNoDevice)
	}
	var target cudakernels.Target
	if d.info, target, err = describe(d.gpu); err != nil {
		return err
	}
	// Blocking waits leave the processor to the loader's workers. Where somebody else has made
	// the context before, this is refused, which does no harm.
	_ = d.gpu.SetPrimaryCtxFlags(cu.SchedBlockingSync)
	ctx, err := driver.Retain(d.gpu)
	if err != nil {
		return errs.Reason(fmt.Sprintf("its context cannot be had: %v", err), "").Because(device.ErrNoDevice)
	}
	if err := d.queues.open(ctx); err != nil {
		_ = ctx.Release(d.gpu) // the first error is the one to tell
		return err
	}
	d.mem.open(ctx, d.setup, target)
	d.host.open(ctx)
	d.code.open(ctx, target)
	d.tuner.open(c, d.info, target)
	d.info.TuneNote = d.tuner.note
	return nil
}

// Info describes the GPU.
func (d *Device) Info() device.Info { return d.info }

// Close finishes the work already enqueued and gives everything back, the
// page-locked memory included.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.drain()
	for p := range d.programs.All() {
		p.free()
	}
	d.programs = device.Slots[device.Program, program]{}
	err = cmp.Or(err, d.host.close()) // of several errors, the first is returned
	err = cmp.Or(err, d.ctx.Do(func() error {
		d.mem.close()
		return cmp.Or(d.queues.close(), d.code.close())
	}))
	err = cmp.Or(err, d.ctx.Release(d.gpu))
	return errs.Wrap(refused(err), "close", d.info.Name, hintGPU)
}
