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
		GetClockInfoFunc:                 func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS },
		GetCurrentClocksEventReasonsFunc: func() (uint64, nvml.Return) { return nvml.ClocksEventReasonSwPowerCap, nvml.SUCCESS },
		GetPcieThroughputFunc:            func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 1500, nvml.SUCCESS },
		IsMigDeviceHandleFunc:            func() (bool, nvml.Return) { return false, nvml.SUCCESS },
		GpmQueryDeviceSupportFunc: func() (nvml.GpmSupport, nvml.Return) {
			return nvml.GpmSupport{IsSupportedDevice: gpmSupport}, nvml.SUCCESS
		},
	}
}

const (
	whole = "8e3c0b8a-0000-1111-2222-333344445555"
	slice = "5a5a5a5a-0000-1111-2222-333344445555"
)

var everySymbol = &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}

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
		DeviceGetHandleByUUIDFunc: func(uuid string) (nvml.Device, nvml.Return) {
			if uuid != "GPU-"+whole && uuid != "MIG-"+slice {
				return nil, nvml.ERROR_NOT_FOUND
			}
			return dev, nvml.SUCCESS
		},
		ErrorStringFunc:    func(r nvml.Return) string { return "code" },
		ExtensionsFunc:     func() nvml.ExtendedInterface { return everySymbol },
		GpmSampleAllocFunc: func() (nvml.GpmSample, nvml.Return) { return sample, nvml.SUCCESS },
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
	s, err := openUUID(library(gpu(1)), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := readings(s)
	for name, want := range map[string]float64{
		Util: 97, MemoryUsed: 3 << 30, Power: 350.5, SMClock: 1980e6, PCIeRx: 1.5e6, PowerCapped: 100, Hot: 0,
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

// TestGPMCountsActivityAlone: metrics that the driver gives as 0 beside active SMs are not reported.
func TestGPMCountsActivityAlone(t *testing.T) {
	lib := library(gpu(1))
	lib.GpmMetricsGetFunc = func(g *nvml.GpmMetricsGetType) nvml.Return {
		g.Metrics[0].Value = 80
		return nvml.SUCCESS
	}
	s, err := openUUID(lib, whole)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	readings(s)
	got := readings(s)
	if got[SMActivity] != 80 {
		t.Errorf("SM activity %v, want 80", got[SMActivity])
	}
	for _, name := range []string{SMOccupancy, TensorUtil, DRAMUtil, GPMPCIeRx, GPMPCIeTx} {
		if v, ok := got[name]; ok {
			t.Errorf("%s was reported as %v", name, v)
		}
	}
}

// go-nvml's question about GPM is refused by real libraries for its version (its
// issue 168). Samples are then tried.
func TestGPMVersionMismatch(t *testing.T) {
	for _, works := range []bool{true, false} {
		dev := gpu(0)
		dev.GpmQueryDeviceSupportFunc = func() (nvml.GpmSupport, nvml.Return) {
			return nvml.GpmSupport{}, nvml.ERROR_ARGUMENT_VERSION_MISMATCH
		}
		lib := library(dev)
		if !works {
			lib.GpmSampleAllocFunc = func() (nvml.GpmSample, nvml.Return) {
				return &mock.GpmSample{
					GetFunc:  func(nvml.Device) nvml.Return { return nvml.ERROR_NOT_SUPPORTED },
					FreeFunc: func() nvml.Return { return nvml.SUCCESS },
				}, nvml.SUCCESS
			}
		}
		s, err := openUUID(lib, whole)
		if err != nil {
			t.Fatal(err)
		}
		s.Read()
		if _, ok := readings(s)[TensorUtil]; ok != works {
			t.Errorf("GPM works %v, was reported %v", works, ok)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoGPM(t *testing.T) {
	s, err := openUUID(library(gpu(0)), whole)
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
	if _, err := openUUID(lib, whole); !errors.Is(err, ErrNoDriver) {
		t.Errorf("got %v, want ErrNoDriver", err)
	}
}

func TestUnknownGPU(t *testing.T) {
	lib := library(gpu(0))
	if _, err := openUUID(lib, "00000000-0000-0000-0000-000000000000"); err == nil || errors.Is(err, ErrNoDriver) {
		t.Errorf("got %v, want an error about the GPU alone", err)
	}
	if n := len(lib.ShutdownCalls()); n != 1 {
		t.Errorf("%d shutdowns after the failure, want 1", n)
	}
}

// A part of a GPU has memory and GPM of its own, and no utilisation; power is the
// whole GPU's.
func TestMIG(t *testing.T) {
	part := gpu(0)
	part.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return true, nvml.SUCCESS }
	part.GetGpuInstanceIdFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	part.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	part.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 10 << 30}, nvml.SUCCESS }
	part.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	part.GetDeviceHandleFromMigDeviceHandleFunc = func() (nvml.Device, nvml.Return) { return gpu(1), nvml.SUCCESS }
	lib := library(part)
	asked := -1
	lib.GpmSampleAllocFunc = func() (nvml.GpmSample, nvml.Return) {
		return &mock.GpmSample{
			MigGetFunc: func(_ nvml.Device, id int) nvml.Return { asked = id; return nvml.SUCCESS },
			GetFunc:    func(nvml.Device) nvml.Return { return nvml.ERROR_NOT_SUPPORTED },
			FreeFunc:   func() nvml.Return { return nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	s, err := openUUID(lib, slice)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Read()
	got := readings(s)
	if got[MemoryTotal] != 10<<30 || got[Power] != 350.5 || got[TensorUtil] != 50 || asked != 7 {
		t.Errorf("%v, GPU instance %d", got, asked)
	}
	if _, ok := got[Util]; ok {
		t.Error("a part of a GPU has no utilisation of its own")
	}
}
