//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// Device is a GPU. It implements device.Device and all of package device's
// optional interfaces.
type Device struct {
	info   device.Info
	gpu    cu.Device
	ctx    driver.Context
	target cudakernels.Target

	ordinal      int
	variants     *variants
	guess        bool                    // the planner's guesses are wanted: UseTuned(false)
	tester       *tester                 // while Tune runs, once it was needed
	newTester    func() (*tester, error) // nil: nothing can be tried
	patience     time.Duration           // with a launch of a variant that is tried
	tuneEmulated bool
	pick         func(op kernels.Op) string // tests: overrides the choice
	tamper       func(*cudakernels.Plan)    // tests: spoils what a trial is going to run

	modules   map[string]cu.Module
	functions map[entry]*function
	scratches map[kernels.Op]int64 // most bytes of scratch memory, by operation
	streams   []cu.Stream
	events    []event
	programs  []*program

	mem     arena
	scratch *block // shared by the programs prepared last
	counter *block // cudakernels.CounterBytes, cleared once; nil before the first kernel
	setup   cu.Stream

	// Programs share scratch memory and counters, so they take turns: a launch on
	// another stream than the last one's waits for that stream.
	last device.Stream
	turn cu.Event

	hostMu sync.Mutex
	host   map[*byte][]byte
	closed bool
}

type event struct {
	cu       cu.Event
	live     bool
	recorded bool
	done     bool // known to have completed since its latest Record
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.OpTimer  = (*Device)(nil)
	_ device.Capturer = (*Device)(nil)
	_ device.Reserver = (*Device)(nil)
	_ device.Tuner    = (*Device)(nil)
)

// Available says why there is no CUDA device, or nil when there is one.
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

// Count is how many GPUs the driver sees: none where Available fails.
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
	d := &Device{
		ordinal: c.Ordinal, tuneEmulated: c.TuneEmulated,
		modules: make(map[string]cu.Module), functions: make(map[entry]*function), scratches: make(map[kernels.Op]int64), host: make(map[*byte][]byte),
	}
	if err := d.open(c.Ordinal); err != nil {
		return nil, opening(c.Ordinal, err)
	}
	d.patience = 10 * time.Second
	if d.info.Emulated {
		d.patience = 10 * time.Minute
	}
	if c.Trials != nil {
		d.newTester = func() (*tester, error) { return startTester(c.Trials(), greeting{d.ordinal, d.patience}) }
	}
	d.variants = newVariants(c.Choices, fmt.Sprintf("%s, sm_%d, driver %s", d.info.Name, d.target.SM, driverVersion(d.info.Emulated)))
	if !d.tunes() {
		d.info.TuneNote = "no variants are tried: the emulated driver's times say nothing about a GPU"
		if c.Choices == nil {
			d.info.TuneNote = "no variants are tried: there is no store of what trials found"
		}
	}
	return d, nil
}

func (d *Device) open(ordinal int) (err error) {
	if d.gpu, err = cu.GetDevice(ordinal); err != nil {
		return errs.Reason(err.Error(), "").Because(device.ErrNoDevice)
	}
	if err = d.describe(); err != nil {
		return err
	}
	// Blocking waits leave the processor to the loader's workers.
	_ = d.gpu.SetPrimaryCtxFlags(cu.SchedBlockingSync) // refused when another user of the context was first: no harm
	if d.ctx, err = driver.Retain(d.gpu); err != nil {
		return errs.Reason(fmt.Sprintf("its context cannot be had: %v", err), "").Because(device.ErrNoDevice)
	}
	d.mem.grow, d.mem.shrink = d.grow, d.shrink
	err = d.ctx.Do(func() error {
		if d.setup, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return err
		}
		d.turn, err = cu.MakeEvent(cu.DisableTiming)
		return err
	})
	if err != nil {
		_ = d.ctx.Release(d.gpu) // the first error is the one to tell
		return err
	}
	return nil
}

// describe fills in the target and the info.
func (d *Device) describe() error {
	name, err := d.gpu.Name()
	if err != nil {
		return fmt.Errorf("its name: %w", err)
	}
	major, err := d.gpu.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return fmt.Errorf("its compute capability: %w", err)
	}
	minor, err := d.gpu.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		return fmt.Errorf("its compute capability: %w", err)
	}
	d.target.SM = 10*major + minor
	if d.target.Processors, err = d.gpu.Attribute(cu.MultiprocessorCount); err != nil {
		return fmt.Errorf("its multiprocessors: %w", err)
	}
	if d.target.Shared, err = driver.SharedOptin(d.gpu); err != nil {
		d.target.Shared = 0 // what the capability guarantees
	}
	total, err := d.gpu.TotalMem()
	if err != nil {
		return fmt.Errorf("its memory: %w", err)
	}
	uuid, err := driver.UUID(d.gpu)
	if err != nil {
		uuid = "" // NVML is then asked by number
	}
	d.info = device.Info{
		Kind: "cuda", Name: name, Computes: true, Memory: total,
		UUID: uuid, Emulated: strings.HasPrefix(name, "Emulated"), // this project's own driver, which runs the kernels on the host
	}
	if !d.info.Emulated {
		d.info.Peaks = device.DatasheetOf(name)
	}
	d.info.Mixed = kernels.BF16.String()
	if d.target.SM < 80 {
		d.info.Mixed = kernels.F16.String()
	}
	var slow []string
	for _, t := range []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16} {
		fast := d.target.TensorCores(t)
		if t == kernels.TF32 && !fast {
			continue // it would be fp32 by another name
		}
		probe := kernels.ConvForward{Conv: kernels.Conv{N: 1, H: 8, W: 8, C: 8, K: 8, R: 3, S: 3, Stride: 1, Pad: 1}, Type: t}
		if len(cudakernels.Configs(probe, d.target)) > 0 {
			d.info.Types = append(d.info.Types, t.String())
			if t != kernels.F32 && !fast {
				slow = append(slow, t.String())
			}
		}
	}
	if len(slow) > 0 {
		d.info.TypeNote = fmt.Sprintf("on compute capability %d.%d %s without tensor cores: less memory and traffic, no faster arithmetic", major, minor, strings.Join(slow, " and "))
	}
	if d.target.SM < 70 || len(d.info.Types) == 0 {
		return errs.Reason(fmt.Sprintf("%s has compute capability %d.%d and the kernels need 7.0 (Volta) or later", name, major, minor), "take --device cpu").Because(device.ErrNoDevice)
	}
	return nil
}

// Info describes the GPU.
func (d *Device) Info() device.Info { return d.info }

// MemoryPeak returns the most bytes of device memory handed out at once.
func (d *Device) MemoryPeak() int64 { return d.mem.peak }

// drain waits for all work on the GPU.
func (d *Device) drain() error { return d.ctx.Do(cu.Synchronize) }

// Close finishes the work already enqueued and gives everything back, the
// page-locked memory included.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.drain()
	for i, p := range d.programs {
		if p != nil {
			p.free()
			d.programs[i] = nil
		}
	}
	d.hostMu.Lock()
	for _, b := range d.host {
		err = cmp.Or(err, d.ctx.HostFree(b)) // the first one speaks for the others
	}
	d.host = nil
	d.hostMu.Unlock()
	err = cmp.Or(err, d.ctx.Do(func() (err error) {
		d.mem.close()
		for i := range d.events {
			if d.events[i].live {
				err = cmp.Or(err, cu.DestroyEvent(&d.events[i].cu))
			}
		}
		err = cmp.Or(err, cu.DestroyEvent(&d.turn))
		for i := range d.streams {
			err = cmp.Or(err, d.streams[i].Destroy())
		}
		err = cmp.Or(err, d.setup.Destroy())
		for _, m := range d.modules {
			err = cmp.Or(err, m.Unload())
		}
		return err
	}))
	err = cmp.Or(err, d.ctx.Release(d.gpu))
	return errs.Wrap(refused(err), "close", d.info.Name, hintGPU)
}
