//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"strings"

	"gorgonia.org/cu"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/cuda/driver"
	"dev.gpustall/kernels"
	cudakernels "dev.gpustall/kernels/cuda"
)

// describe returns what a GPU is, for people and for the kernels. It fails for one that is
// older than the kernels.
func describe(gpu cu.Device) (info device.Info, target cudakernels.Target, err error) {
	name, err := gpu.Name()
	if err != nil {
		return info, target, fmt.Errorf("its name: %w", err)
	}
	if target, err = targetOf(gpu); err != nil {
		return info, target, err
	}
	total, err := gpu.TotalMem()
	if err != nil {
		return info, target, fmt.Errorf("its memory: %w", err)
	}
	uuid, err := driver.UUID(gpu)
	if err != nil {
		uuid = "" // NVML is then asked by number
	}
	info = device.Info{
		Kind: "cuda", Name: name, Computes: true, Memory: total, UUID: uuid,
		Emulated: strings.HasPrefix(name, "Emulated"), // this project's own driver, which runs the kernels on the host
		Mixed:    kernels.BF16.String(),
	}
	if !info.Emulated {
		info.Peaks = device.DatasheetOf(name)
	}
	if target.SM < 80 {
		info.Mixed = kernels.F16.String()
	}
	capability := fmt.Sprintf("%d.%d", target.SM/10, target.SM%10)
	var slow []string
	info.Types, slow = typesOf(target)
	if len(slow) > 0 {
		info.TypeNote = fmt.Sprintf("on compute capability %s %s without tensor cores: less memory and traffic, no faster arithmetic", capability, strings.Join(slow, " and "))
	}
	if target.SM < 70 || len(info.Types) == 0 {
		return info, target, errs.Reason(fmt.Sprintf("%s has compute capability %s and the kernels need 7.0 (Volta) or later", name, capability), "take --device cpu").Because(device.ErrNoDevice)
	}
	return info, target, nil
}

func targetOf(gpu cu.Device) (t cudakernels.Target, err error) {
	major, err := gpu.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return t, fmt.Errorf("its compute capability: %w", err)
	}
	minor, err := gpu.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		return t, fmt.Errorf("its compute capability: %w", err)
	}
	t.SM = 10*major + minor
	if t.Processors, err = gpu.Attribute(cu.MultiprocessorCount); err != nil {
		return t, fmt.Errorf("its multiprocessors: %w", err)
	}
	if t.Shared, err = driver.SharedOptin(gpu); err != nil {
		t.Shared = 0 // what the capability guarantees
	}
	return t, nil
}

// typesOf returns the types that have kernels for a target, and those of them for which it
// has no tensor cores.
func typesOf(target cudakernels.Target) (types, slow []string) {
	for _, t := range []kernels.Type{kernels.F32, kernels.TF32, kernels.F16, kernels.BF16} {
		fast := target.TensorCores(t)
		if t == kernels.TF32 && !fast {
			continue // it would be fp32 by another name
		}
		probe := kernels.ConvForward{Conv: kernels.Conv{N: 1, H: 8, W: 8, C: 8, K: 8, R: 3, S: 3, Stride: 1, Pad: 1}, Type: t}
		if len(cudakernels.Configs(probe, target)) == 0 {
			continue
		}
		types = append(types, t.String())
		if t != kernels.F32 && !fast {
			slow = append(slow, t.String())
		}
	}
	return types, slow
}
