package command

import (
	"fmt"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/device/emu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train"
)

// hintDevice is what there is to do about a device that cannot be had.
const hintDevice = "gpustall doctor lists the devices"

// opened is the device a run trains on.
type opened struct {
	dev    device.Device
	preset *emu.Preset // nil unless emulated
	index  int         // of the GPU; -1 when it is none
	why    string      // why auto chose it
}

// explain adds to a device's refusal how auto came to take that device.
func (o *opened) explain(err error) error {
	if o.why == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, o.why)
}

// openDevice opens what --device names. An emulated device is chosen by name
// only, never as a fallback. again has a GPU forget which kernels trials found fastest.
func openDevice(name string, again bool, clock trace.Clock) (*opened, error) {
	switch {
	case name == "auto":
		dev, err := openCUDA(0, again)
		if err == nil {
			return &opened{dev: dev, why: "device auto: took the first NVIDIA GPU"}, nil
		}
		c, cerr := cpu.Open(0)
		return &opened{dev: c, index: -1, why: "device auto: took the cpu: " + errs.Explain(err).Reason}, errs.Wrap(cerr, "open device", "cpu", hintDevice)
	case name == "cpu":
		c, err := cpu.Open(0)
		return &opened{dev: c, index: -1}, errs.Wrap(err, "open device", name, hintDevice)
	case name == "cuda" || strings.HasPrefix(name, "cuda:"):
		n := 0
		if i := strings.TrimPrefix(name, "cuda"); i != "" {
			var err error
			if n, err = strconv.Atoi(i[1:]); err != nil || n < 0 {
				return nil, refuse("--device "+name, "it names no GPU", "write cuda or cuda:N with N counting from 0")
			}
		}
		dev, err := openCUDA(n, again)
		if err != nil {
			return nil, err
		}
		return &opened{dev: dev, index: n}, nil
	case strings.HasPrefix(name, "emu:"):
		p, err := emu.Find(name)
		if err != nil {
			return nil, err
		}
		return emulated(p, clock), nil
	}
	return nil, errs.New("open device", name, "there is none of that name",
		"choose auto, cpu, cuda[:N] or emu:NAME with NAME one of "+strings.Join(emu.Names(), ", ")).Because(device.ErrNoDevice)
}

// emulated is a modelled device on the run's clock.
func emulated(p emu.Preset, clock trace.Clock) *opened {
	return &opened{dev: emu.New(p, emu.On(clock)), preset: &p, index: -1}
}

// defaults are the knobs before the flags: an emulated workload brings its batch
// size.
func (d *opened) defaults() train.Knobs {
	k := train.DefaultsOn(d.dev.Info())
	if d.fixed() {
		k.Loader.BatchSize = d.preset.Workload.BatchSize
	}
	return k
}

// fixed reports whether the device models a workload of its own, without a network.
func (d *opened) fixed() bool { return d.preset != nil && d.preset.Workload != nil }
