//go:build cgo

package nvml

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// gpm reads GPU performance metrics (Hopper and later): each reading is the
// difference of two samples at least 100 ms apart (NVML API reference, GPM).
type gpm struct {
	lib       nvml.Interface
	dev       nvml.Device
	prev, cur nvml.GpmSample
	primed    bool
}

// gpmMetrics are what is asked for, with the factor to this package's units.
// GPM counts PCIe in MiB/s.
var gpmMetrics = []struct {
	id     nvml.GpmMetricId
	name   string
	factor float64
}{
	{nvml.GPM_METRIC_SM_UTIL, SMActivity, 1},
	{nvml.GPM_METRIC_SM_OCCUPANCY, SMOccupancy, 1},
	{nvml.GPM_METRIC_ANY_TENSOR_UTIL, TensorUtil, 1},
	{nvml.GPM_METRIC_DRAM_BW_UTIL, DRAMUtil, 1},
	{nvml.GPM_METRIC_PCIE_RX_PER_SEC, GPMPCIeRx, 1 << 20},
	{nvml.GPM_METRIC_PCIE_TX_PER_SEC, GPMPCIeTx, 1 << 20},
}

// newGPM returns nil where the GPU has no GPM.
func newGPM(lib nvml.Interface, dev nvml.Device) (g *gpm) {
	defer func() {
		if recover() != nil { // a library without the symbols
			g = nil
		}
	}()
	support, r := dev.GpmQueryDeviceSupport()
	if r != nvml.SUCCESS || support.IsSupportedDevice == 0 {
		return nil
	}
	g = &gpm{lib: lib, dev: dev}
	var r1, r2 nvml.Return
	g.prev, r1 = lib.GpmSampleAlloc()
	g.cur, r2 = lib.GpmSampleAlloc()
	if r1 != nvml.SUCCESS || r2 != nvml.SUCCESS {
		return nil
	}
	return g
}

// read appends the metrics since the last call; the first call gives none.
func (g *gpm) read(out []Gauge) []Gauge {
	if g == nil || g.cur.Get(g.dev) != nvml.SUCCESS {
		return out
	}
	g.prev, g.cur = g.cur, g.prev
	if !g.primed {
		g.primed = true
		return out
	}
	get := nvml.GpmMetricsGetType{
		Version: nvml.GPM_METRICS_GET_VERSION, NumMetrics: uint32(len(gpmMetrics)),
		Sample1: g.cur, Sample2: g.prev,
	}
	for i, m := range gpmMetrics {
		get.Metrics[i].MetricId = uint32(m.id)
	}
	if g.lib.GpmMetricsGet(&get) != nvml.SUCCESS {
		return out
	}
	for i, m := range gpmMetrics {
		v := get.Metrics[i]
		if nvml.Return(v.NvmlReturn) == nvml.SUCCESS && !math.IsNaN(v.Value) {
			out = append(out, Gauge{m.name, v.Value * m.factor})
		}
	}
	return out
}

func (g *gpm) close() {
	if g != nil {
		_, _ = g.prev.Free(), g.cur.Free()
	}
}
