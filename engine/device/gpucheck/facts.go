package main

import (
	"os"
	"regexp"
	"runtime"
	"time"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/device/nvml"
)

// facts describe the machine.
type facts struct {
	Name     string             `json:"name"`
	UUID     string             `json:"uuid,omitempty"`
	Memory   int64              `json:"memory_bytes"`
	Types    []string           `json:"types"`
	Emulated bool               `json:"emulated"`
	Driver   string             `json:"driver,omitempty"` // its version
	NVML     string             `json:"nvml"`             // "ok", or why there is none
	Gauges   map[string]float64 `json:"nvml_gauges,omitempty"`
	ReadMS   float64            `json:"nvml_read_ms,omitempty"` // one reading of all gauges
	CPUs     int                `json:"cpus"`
	Go       string             `json:"go"`
	OpenMS   float64            `json:"open_ms"` // loading the driver and making the context
}

func describe() (any, error) {
	begin := time.Now()
	return onGPU(nil, func(d device.Device) (any, error) {
		i := d.Info()
		f := facts{
			Name: i.Name, UUID: i.UUID, Memory: i.Memory, Types: i.Types, CPUs: runtime.NumCPU(), Go: runtime.Version(),
			Emulated: i.Emulated, OpenMS: micro(time.Since(begin)) / 1e3,
		}
		f.askNVML()
		if f.Driver == "" {
			f.Driver = kernelModule()
		}
		return f, nil
	})
}

// askNVML takes the driver's version and all the gauges that this GPU has.
func (f *facts) askNVML() {
	open := func() (*nvml.Sampler, error) { return nvml.OpenUUID(f.UUID) }
	if f.UUID == "" {
		open = func() (*nvml.Sampler, error) { return nvml.Open(0) }
	}
	s, err := open()
	if err != nil {
		f.NVML = err.Error()
		return
	}
	f.NVML, f.Driver, f.Gauges = "ok", s.Driver(), map[string]float64{}
	s.Read()
	time.Sleep(150 * time.Millisecond) // performance metrics are differences over 100 ms
	begin := time.Now()
	for _, g := range s.Read() {
		f.Gauges[g.Name] = g.Value
	}
	f.ReadMS = micro(time.Since(begin)) / 1e3
	if err := s.Close(); err != nil {
		f.NVML = err.Error()
	}
}

// kernelModule returns the version of the driver's kernel module, for machines without NVML. It is
// empty when unknown.
func kernelModule() string {
	b, _ := os.ReadFile("/proc/driver/nvidia/version") // no file, no version
	return string(regexp.MustCompile(`\b\d{3}\.\d+(\.\d+)?\b`).Find(b))
}
