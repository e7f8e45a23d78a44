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
	part      int // the GPU instance (MIG); -1: the whole GPU
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

// newGPM returns nil where the GPU or the library has no GPM. part is the number
// of a GPU instance, or -1 for the whole GPU.
func newGPM(lib nvml.Interface, has func(symbol string) bool, dev nvml.Device, part int) *gpm {
	get := "nvmlGpmSampleGet"
	if part >= 0 {
		get = "nvmlGpmMigSampleGet"
	}
	for _, symbol := range []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmMetricsGet", get} {
		if !has(symbol) {
			return nil
		}
	}
	// go-nvml before its pull request 176 asks with a version that the library
	// refuses: then the first sample tells.
	support, r := dev.GpmQueryDeviceSupport()
	if r != nvml.ERROR_ARGUMENT_VERSION_MISMATCH && (r != nvml.SUCCESS || support.IsSupportedDevice == 0) {
		return nil
	}
	g := &gpm{lib: lib, dev: dev, part: part}
	if g.prev, r = lib.GpmSampleAlloc(); r != nvml.SUCCESS {
		return nil
	}
	if g.cur, r = lib.GpmSampleAlloc(); r != nvml.SUCCESS {
		_ = g.prev.Free() // nothing is left of it
		return nil
	}
	return g
}

func (g *gpm) sample() nvml.Return {
	if g.part >= 0 {
		return g.cur.MigGet(g.dev, g.part)
	}
	return g.cur.Get(g.dev)
}

// read appends the metrics since the last call; the first call gives none.
func (g *gpm) read(out []Gauge) []Gauge {
	if g == nil || g.sample() != nvml.SUCCESS {
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
	counted := gpmMetrics
	if uncounted(&get) {
		counted = gpmMetrics[:1]
	}
	for i, m := range counted {
		v := get.Metrics[i]
		if nvml.Return(v.NvmlReturn) == nvml.SUCCESS && !math.IsNaN(v.Value) {
			out = append(out, Gauge{m.name, v.Value * m.factor})
		}
	}
	return out
}

// uncounted reports whether the driver counts nothing but the SMs' activity, the first of the metrics,
// and yet claims to: SMs that are active have warps, so occupancy is not 0. Driver 580 did so on an
// H100 in a virtual machine.
func uncounted(get *nvml.GpmMetricsGetType) bool {
	activity, occupancy := &get.Metrics[0], &get.Metrics[1]
	return activity.NvmlReturn == uint32(nvml.SUCCESS) && activity.Value > 0 && occupancy.Value == 0
}

func (g *gpm) close() {
	if g != nil {
		_, _ = g.prev.Free(), g.cur.Free()
	}
}
