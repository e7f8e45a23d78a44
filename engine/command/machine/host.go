package machine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	system "github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader/codec/jpeg"
)

// Facts returns what a report says of the machine. What cannot be read is left out.
func Facts() []knob.Setting {
	var facts []knob.Setting
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, knob.Setting{Name: name, Value: value})
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
	if ids := host.Affinity(); len(ids) > 0 {
		add("affinity", units.Counted(len(ids), "cpu", "cpus")+": "+units.Ranges(ids, ","))
	}
	add(trace.CoresShared, host.SharedOut())
	if q := host.Quota(); q > 0 {
		add(trace.CPUQuota, fmt.Sprintf(trace.Quota, q))
	}
	if m, err := mem.VirtualMemory(); err == nil {
		add("memory", units.Prose.Bytes(int64(m.Total)))
	}
	if m := host.ReadMemory(); m.Cgroup {
		add("memory limit", units.Prose.Bytes(m.Limit)+" by the cgroup")
	}
	add("go", runtime.Version())
	add("jpeg decoder", jpeg.How())
	return facts
}

// hostGauges says which gauges of the host this machine has, and why it lacks the others.
func hostGauges() []finding {
	s := host.New()
	defer s.Close()
	before := s.Sample()
	time.Sleep(time.Millisecond) // rates need some time between samples
	var have []string
	var out []finding
	for gauge, r := range Rates(before, s.Sample()) {
		if r.Known {
			have = append(have, gauge)
			continue
		}
		out = append(out, finding{"note", gauge, "n/a here: " + r.Why})
	}
	if len(have) == 0 {
		return out
	}
	return append([]finding{{"ok", "host gauges", strings.Join(have, " ")}}, out...)
}

// RaiseProcessors raises GOMAXPROCS to the number of threads that may be ready at the same time
// with so many workers.
//
// With too few, the step loop waits in a queue of Go's scheduler behind workers that compute, up
// to 10 ms each. Nothing measures that wait, and it would be charged to a copy that has not
// started. With enough, the kernel shares out the cores in turns of about 3 ms, and counts who
// waits. GOMAXPROCS is never lowered, because each change stops all goroutines for a moment. A
// value from the user's environment stays.
func RaiseProcessors(workers int) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	if n := host.Processors(workers); n > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}
