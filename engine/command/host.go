package command

import (
	"runtime"
	"strconv"

	"github.com/shirou/gopsutil/v4/cpu"
	system "github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/host"
	"dev.gpustall/engine/trace"
)

// hostFacts are what a report says of the machine. What cannot be read is left
// out.
func hostFacts() []trace.Knob {
	var facts []trace.Knob
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, trace.Knob{Name: name, Value: value})
		}
	}
	if h, err := system.Info(); err == nil {
		add("os", h.Platform+" "+h.PlatformVersion)
		add("kernel", h.KernelVersion)
	}
	if c, err := cpu.Info(); err == nil && len(c) > 0 {
		add("cpu", c[0].ModelName)
	}
	add("threads", strconv.Itoa(host.Cores()))
	if m, err := mem.VirtualMemory(); err == nil {
		add("memory", figures.Prose.Bytes(int64(m.Total)))
	}
	add("go", runtime.Version())
	return facts
}
