package engine

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// memoryGauge records the device memory when it changes.
type memoryGauge struct{ peak, held, planned int64 }

func (g *memoryGauge) publish(r *trace.Recorder, dev device.Device, planned int64) {
	if planned != g.planned {
		g.planned = planned
		r.Gauge(trace.GaugePlannedBytes, float64(planned))
	}
	if peak := dev.MemoryPeak(); peak != g.peak {
		g.peak = peak
		r.Gauge(trace.GaugePeakBytes, float64(peak))
	}
	m, ok := dev.(device.MemoryMeter)
	if !ok {
		return
	}
	if held := m.MemoryHeld(); held != g.held {
		g.held = held
		r.Gauge(trace.GaugeHeldBytes, float64(held))
	}
}
