// Package machine opens the devices of this machine and says what it has: facts for reports,
// limits, gauges, and the findings of gpustall doctor.
package machine

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
)

// hintDevice is the hint if a device cannot be opened.
const hintDevice = "gpustall doctor lists the devices"

// Device is the device a run trains on.
type Device struct {
	Device device.Device
	Preset *emu.Preset // nil unless the device is emulated
	Index  int         // the number of the GPU; -1 if it is none
	Why    string      // why --device auto chose it, and what this binary lacks; mostly empty
}

// Explain adds to the error of a device why auto chose it.
func (o *Device) Explain(err error) error {
	if o.Why == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, o.Why)
}

// Open opens the device that --device names. auto never takes an emulated device. If again is
// true, a GPU forgets which kernels were fastest.
func Open(name string, again bool, clock trace.Clock) (*Device, error) {
	switch {
	case name == "auto":
		dev, err := openCUDA(0, again)
		if err == nil {
			return &Device{Device: dev, Why: "device auto: took the first NVIDIA GPU"}, nil
		}
		c, cerr := cpu.Open(0)
		why := "device auto: took the cpu: " + errs.Explain(err).Reason
		if slow := withoutCgo(); slow != "" {
			why += "; " + slow
		}
		return &Device{Device: c, Index: -1, Why: why}, errs.Wrap(cerr, "open device", "cpu", hintDevice)
	case name == "cpu":
		c, err := cpu.Open(0)
		return &Device{Device: c, Index: -1, Why: withoutCgo()}, errs.Wrap(err, "open device", name, hintDevice)
	case name == "cuda" || strings.HasPrefix(name, "cuda:"):
		n := 0
		if i := strings.TrimPrefix(name, "cuda"); i != "" {
			var err error
			if n, err = strconv.Atoi(i[1:]); err != nil || n < 0 {
				return nil, cli.Refuse("--device "+name, "it names no GPU", "write cuda or cuda:N with N counting from 0")
			}
		}
		dev, err := openCUDA(n, again)
		if err != nil {
			return nil, err
		}
		return &Device{Device: dev, Index: n}, nil
	case strings.HasPrefix(name, "emu:"):
		p, err := emu.Find(name)
		if err != nil {
			return nil, err
		}
		return Emulated(p, clock), nil
	}
	return nil, errs.New("open device", name, "there is none of that name",
		"choose auto, cpu, cuda[:N] or emu:NAME with NAME one of "+strings.Join(emu.Names(), ", ")).Because(device.ErrNoDevice)
}

// withoutCgo says what a binary lacks that was built without cgo. It is empty for any
// other binary.
func withoutCgo() string {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"}) {
		return "this binary was built without cgo: its cpu device computes in Go, many times slower, and it has no CUDA device"
	}
	return ""
}

// Emulated returns a modelled device that uses the clock of the run.
func Emulated(p emu.Preset, clock trace.Clock) *Device {
	return &Device{Device: emu.New(p, emu.On(clock)), Preset: &p, Index: -1}
}

// Defaults returns the knobs before the flags. A modelled workload has a batch size of its own.
func (d *Device) Defaults() train.Knobs {
	k := train.DefaultsOn(d.Device.Info())
	if d.Fixed() {
		k.Loader.BatchSize = d.Preset.Workload.BatchSize
	}
	return k
}

// Fixed reports whether the device models a workload of its own, which has no network.
func (d *Device) Fixed() bool { return d.Preset != nil && d.Preset.Workload != nil }
