package prepared

import (
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/trace"
)

// gauges publishes the gauges of device memory, and remembers the last values.
type gauges struct {
	dev                 device.Device
	rec                 *trace.Recorder
	peak, held, planned int64
}

// publish hands the session the gauges that changed.
func (g *gauges) publish(planned int64) {
	g.set(&g.planned, trace.GaugePlannedBytes, planned)
	g.set(&g.peak, trace.GaugePeakBytes, g.dev.MemoryPeak())
	if m, ok := g.dev.(device.MemoryMeter); ok {
		g.set(&g.held, trace.GaugeHeldBytes, m.MemoryHeld())
	}
}

func (g *gauges) set(last *int64, name string, now int64) {
	if now != *last {
		*last = now
		g.rec.Gauge(name, float64(now))
	}
}
