//go:build cgo

package nvml

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

func gpu(gpmSupport uint32) *mock.Device {
	return &mock.Device{
		GetNameFunc:             func() (string, nvml.Return) { return "Mock GPU", nvml.SUCCESS },
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97, Memory: 40}, nvml.SUCCESS },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Used: 3 << 30, Total: 80 << 30}, nvml.SUCCESS
		},
		GetPowerUsageFunc: func() (uint32, nvml.Return) { return 350_500, nvml.SUCCESS },
		GetTemperatureFunc: func(nvml.TemperatureSensors) (uint32, nvml.Return) {
			return 0, nvml.ERROR_NOT_SUPPORTED
		},
		GetClockInfoFunc:      func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS },
		GetPcieThroughputFunc: func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 1500, nvml.SUCCESS },
		GpmQueryDeviceSupportFunc: func() (nvml.GpmSupport, nvml.Return) {
			return nvml.GpmSupport{IsSupportedDevice: gpmSupport}, nvml.SUCCESS
		},
	}
}

func library(dev nvml.Device) *mock.Interface {
	sample := &mock.GpmSample{
		GetFunc:  func(nvml.Device) nvml.Return { return nvml.SUCCESS },
		FreeFunc: func() nvml.Return { return nvml.SUCCESS },
	}
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return dev, nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "580.1", nvml.SUCCESS },
		ErrorStringFunc:            func(r nvml.Return) string { return "code" },
		GpmSampleAllocFunc:         func() (nvml.GpmSample, nvml.Return) { return sample, nvml.SUCCESS },
		GpmMetricsGetFunc: func(g *nvml.GpmMetricsGetType) nvml.Return {
			for i := range g.Metrics[:g.NumMetrics] {
				g.Metrics[i].Value = 50
			}
			g.Metrics[0].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			return nvml.SUCCESS
		},
	}
}

func readings(s *Sampler) map[string]float64 {
	m := map[string]float64{}
	for _, g := range s.Read() {
		m[g.Name] = g.Value
	}
	return m
}

func TestRead(t *testing.T) {
	s, err := open(library(gpu(1)), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := readings(s)
	for name, want := range map[string]float64{
		Util: 97, MemoryUsed: 3 << 30, Power: 350.5, SMClock: 1980e6, PCIeRx: 1.5e6,
	} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	if _, ok := got[Temperature]; ok {
		t.Error("a gauge that the GPU lacks was reported")
	}
	if _, ok := got[TensorUtil]; ok {
		t.Error("GPM reported from one sample; it needs two")
	}
	got = readings(s)
	if got[TensorUtil] != 50 || got[GPMPCIeRx] != 50<<20 {
		t.Errorf("GPM tensor %v, PCIe %v", got[TensorUtil], got[GPMPCIeRx])
	}
	if _, ok := got[SMActivity]; ok {
		t.Error("a GPM metric with an error of its own was reported")
	}
}

func TestNoGPM(t *testing.T) {
	s, err := open(library(gpu(0)), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Read()
	if _, ok := readings(s)[TensorUtil]; ok {
		t.Error("GPM reported on a GPU without it")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoDriver(t *testing.T) {
	lib := library(nil)
	lib.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	if _, err := open(lib, 0); !errors.Is(err, ErrNoDriver) {
		t.Errorf("got %v, want ErrNoDriver", err)
	}
	lib.InitFunc = func() nvml.Return { panic("undefined symbol") }
	if _, err := open(lib, 0); !errors.Is(err, ErrNoDriver) {
		t.Errorf("got %v, want ErrNoDriver", err)
	}
}
