//go:build cgo

// Package nvml samples what NVIDIA's management library says of a GPU, to be
// shown beside what gpustall measures. NVML's utilisation is the percentage of
// the driver's last sampling window (1/6 s to 1 s) in which at least one kernel
// ran, so one busy thread scores 100 (NVML API reference, nvmlUtilization_t).
package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Sampler reads the gauges of one GPU. It is not safe for concurrent use.
type Sampler struct {
	lib    nvml.Interface
	dev    nvml.Device
	name   string
	driver string
	gpm    *gpm
}

// Open loads the library and picks GPU number index. Without a driver the error
// wraps ErrNoDriver.
func Open(index int) (*Sampler, error) { return open(nvml.New(), index) }

func open(lib nvml.Interface, index int) (s *Sampler, err error) {
	// go-nvml panics when a symbol is missing in an old library.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("open NVML: %v: %w", p, ErrNoDriver)
		}
	}()
	if r := lib.Init(); r != nvml.SUCCESS {
		return nil, fmt.Errorf("open NVML: %s: %w", text(lib, r), ErrNoDriver)
	}
	dev, r := lib.DeviceGetHandleByIndex(index)
	if r != nvml.SUCCESS {
		_ = lib.Shutdown()
		return nil, fmt.Errorf("open GPU %d in NVML: %s", index, text(lib, r))
	}
	s = &Sampler{lib: lib, dev: dev}
	s.name, _ = dev.GetName()
	s.driver, _ = lib.SystemGetDriverVersion()
	s.gpm = newGPM(lib, dev)
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

// Read takes one sample. A gauge that this GPU does not have is left out.
func (s *Sampler) Read() []Gauge {
	out := make([]Gauge, 0, 16)
	add := func(name string, v float64, r nvml.Return) {
		if r == nvml.SUCCESS {
			out = append(out, Gauge{name, v})
		}
	}
	u, r := s.dev.GetUtilizationRates()
	add(Util, float64(u.Gpu), r)
	add(MemoryUtil, float64(u.Memory), r)
	m, r := s.dev.GetMemoryInfo()
	add(MemoryUsed, float64(m.Used), r)
	add(MemoryTotal, float64(m.Total), r)
	mw, r := s.dev.GetPowerUsage()
	add(Power, float64(mw)/1e3, r)
	t, r := s.dev.GetTemperature(nvml.TEMPERATURE_GPU)
	add(Temperature, float64(t), r)
	sm, r := s.dev.GetClockInfo(nvml.CLOCK_SM)
	add(SMClock, float64(sm)*1e6, r)
	mem, r := s.dev.GetClockInfo(nvml.CLOCK_MEM)
	add(MemoryClock, float64(mem)*1e6, r)
	// KB/s over the last 20 ms (nvmlDeviceGetPcieThroughput).
	rx, r := s.dev.GetPcieThroughput(nvml.PCIE_UTIL_RX_BYTES)
	add(PCIeRx, float64(rx)*1e3, r)
	tx, r := s.dev.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
	add(PCIeTx, float64(tx)*1e3, r)
	return s.gpm.read(out)
}

// Close unloads the library.
func (s *Sampler) Close() error {
	s.gpm.close()
	if r := s.lib.Shutdown(); r != nvml.SUCCESS {
		return errors.New("close NVML: " + text(s.lib, r))
	}
	return nil
}
