package machine

import (
	"iter"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/trace"
)

// Rates returns each gauge of the host with its value between two samples.
func Rates(prev, cur host.Sample) iter.Seq2[string, host.Reading] {
	return func(yield func(string, host.Reading) bool) {
		r, ok := host.Between(prev, cur)
		if !ok {
			return
		}
		for _, row := range []struct {
			gauge string
			host.Reading
		}{
			{trace.GaugeCPUOurs, r.CPUOurs}, {trace.GaugeCPUOthers, r.CPUOthers}, {trace.GaugeCPUIdle, r.CPUIdle},
			{trace.GaugeCPUGroup, r.CPUGroup},
			{trace.GaugeRunQueue, r.RunQueue}, {trace.GaugeThrottled, r.Throttled},
			{trace.GaugePressureCPU, r.PressureCPU}, {trace.GaugePressureIO, r.PressureIO}, {trace.GaugePressureMemory, r.PressureMemory},
			{trace.GaugeMajorFaults, r.MajorFaults}, {trace.GaugeDiskRead, r.DiskRead}, {trace.GaugeDiskOurs, r.DiskOurs},
		} {
			if !yield(row.gauge, row.Reading) {
				return
			}
		}
	}
}
