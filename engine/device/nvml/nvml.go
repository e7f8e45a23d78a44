//go:build cgo

// Package nvml samples what NVIDIA's management library says of a GPU, to be
// shown beside what gpustall measures. NVML's utilisation is the percentage of the
// driver's last sampling window (1/6 s to 1 s) in which at least one kernel ran. So one
// busy thread scores 100 (NVML API reference, nvmlUtilization_t).
package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Sampler reads the gauges of one GPU. It is not safe for concurrent use.
type Sampler struct {
	lib    nvml.Interface
	dev    nvml.Device // what CUDA computes on: a GPU, or a part of one (MIG)
	gpu    nvml.Device // the whole GPU
	gauges []reader
	name   string
	driver string
	gpm    *gpm
}

// reader is a gauge and the function of the library that it calls. A call of a
// function that an old library lacks ends the process in the dynamic linker, so
// every one is looked up first.
type reader struct {
	symbol string
	read   func(s *Sampler, add func(name string, v float64, r nvml.Return))
}

var readers = []reader{
	{"nvmlDeviceGetUtilizationRates", func(s *Sampler, add func(string, float64, nvml.Return)) {
		u, r := s.dev.GetUtilizationRates() // a part of a GPU has none
		add(Util, float64(u.Gpu), r)
		add(MemoryUtil, float64(u.Memory), r)
	}},
	{"nvmlDeviceGetMemoryInfo", func(s *Sampler, add func(string, float64, nvml.Return)) {
		m, r := s.dev.GetMemoryInfo()
		add(MemoryUsed, float64(m.Used), r)
		add(MemoryTotal, float64(m.Total), r)
	}},
	{"nvmlDeviceGetPowerUsage", func(s *Sampler, add func(string, float64, nvml.Return)) {
		mw, r := s.gpu.GetPowerUsage()
		add(Power, float64(mw)/1e3, r)
	}},
	{"nvmlDeviceGetTemperature", func(s *Sampler, add func(string, float64, nvml.Return)) {
		t, r := s.gpu.GetTemperature(nvml.TEMPERATURE_GPU)
		add(Temperature, float64(t), r)
	}},
	{"nvmlDeviceGetClockInfo", func(s *Sampler, add func(string, float64, nvml.Return)) {
		sm, r := s.gpu.GetClockInfo(nvml.CLOCK_SM)
		add(SMClock, float64(sm)*1e6, r)
		mem, r := s.gpu.GetClockInfo(nvml.CLOCK_MEM)
		add(MemoryClock, float64(mem)*1e6, r)
	}},
	{"nvmlDeviceGetCurrentClocksEventReasons", func(s *Sampler, add func(string, float64, nvml.Return)) {
		why, r := s.gpu.GetCurrentClocksEventReasons()
		add(Hot, percent(why&(nvml.ClocksEventReasonSwThermalSlowdown|nvml.ClocksThrottleReasonHwThermalSlowdown) != 0), r)
		add(PowerCapped, percent(why&(nvml.ClocksEventReasonSwPowerCap|nvml.ClocksThrottleReasonHwPowerBrakeSlowdown) != 0), r)
	}},
	// KB/s over 20 ms, which the call waits for (nvmlDeviceGetPcieThroughput).
	{"nvmlDeviceGetPcieThroughput", func(s *Sampler, add func(string, float64, nvml.Return)) {
		rx, r := s.gpu.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES)
		add(PCIeRx, float64(rx)*1e3, r)
		tx, r := s.gpu.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
		add(PCIeTx, float64(tx)*1e3, r)
	}},
}

// percent is all or nothing.
func percent(on bool) float64 {
	if on {
		return 100
	}
	return 0
}

// Open loads the library and picks GPU number index, in NVML's order: that of the
// PCI bus, all GPUs counted. Without a driver the error wraps ErrNoDriver.
func Open(index int) (*Sampler, error) {
	return open(nvml.New(), func(lib nvml.Interface) (nvml.Device, error) {
		dev, r := lib.DeviceGetHandleByIndex(index)
		if r != nvml.SUCCESS {
			return nil, failed("open in NVML", fmt.Sprintf("GPU %d", index), text(lib, r))
		}
		return dev, nil
	})
}

// OpenUUID picks the GPU, or the part of one, that CUDA computes on. CUDA's
// numbers are not NVML's: CUDA_VISIBLE_DEVICES hides GPUs and orders them, and the
// fastest may come first. uuid is 8-4-4-4-12 hexadecimal digits, as cuDeviceGetUuid
// has them, without the prefix "GPU-" or "MIG-".
func OpenUUID(uuid string) (*Sampler, error) { return openUUID(nvml.New(), uuid) }

func openUUID(lib nvml.Interface, uuid string) (*Sampler, error) {
	return open(lib, func(lib nvml.Interface) (nvml.Device, error) {
		var r nvml.Return
		for _, prefix := range []string{"GPU-", "MIG-"} {
			var dev nvml.Device
			if dev, r = lib.DeviceGetHandleByUUID(prefix + uuid); r == nvml.SUCCESS {
				return dev, nil
			}
		}
		return nil, failed("open in NVML", "GPU "+uuid, text(lib, r))
	})
}

func open(lib nvml.Interface, pick func(nvml.Interface) (nvml.Device, error)) (*Sampler, error) {
	if r := lib.Init(); r != nvml.SUCCESS {
		return nil, failed("open", "NVML", text(lib, r)).Because(ErrNoDriver)
	}
	has := func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }
	dev, err := pick(lib)
	if err != nil {
		_ = lib.Shutdown() // the first error is the one to tell
		return nil, err
	}
	s := &Sampler{lib: lib, dev: dev, gpu: dev}
	part := -1 // the number of the GPU instance
	if has("nvmlDeviceIsMigDeviceHandle") && has("nvmlDeviceGetGpuInstanceId") && has("nvmlDeviceGetDeviceHandleFromMigDeviceHandle") {
		if mig, r := dev.IsMigDeviceHandle(); r == nvml.SUCCESS && mig {
			if id, r := dev.GetGpuInstanceId(); r == nvml.SUCCESS {
				part = id
			}
			if whole, r := dev.GetDeviceHandleFromMigDeviceHandle(); r == nvml.SUCCESS {
				s.gpu = whole
			}
		}
	}
	for _, g := range readers {
		if has(g.symbol) {
			s.gauges = append(s.gauges, g)
		}
	}
	s.name, _ = dev.GetName()
	s.driver, _ = lib.SystemGetDriverVersion()
	s.gpm = newGPM(lib, has, s.gpu, part)
	return s, nil
}

// text names a return code; the library's own text may be missing with it.
func text(lib nvml.Interface, r nvml.Return) string {
	if r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return "libnvidia-ml.so.1 not found"
	}
	return lib.ErrorString(r)
}

// Name returns the GPU's name.
func (s *Sampler) Name() string { return s.name }

// Driver returns the driver's version.
func (s *Sampler) Driver() string { return s.driver }

// Read takes one sample, in about 40 ms. A gauge that this GPU does not have is
// left out.
func (s *Sampler) Read() []Gauge {
	out := make([]Gauge, 0, 16)
	for _, g := range s.gauges {
		g.read(s, func(name string, v float64, r nvml.Return) {
			if r == nvml.SUCCESS {
				out = append(out, Gauge{name, v})
			}
		})
	}
	return s.gpm.read(out)
}

// Close unloads the library.
func (s *Sampler) Close() error {
	s.gpm.close()
	if r := s.lib.Shutdown(); r != nvml.SUCCESS {
		return failed("close", "NVML", text(s.lib, r))
	}
	return nil
}
