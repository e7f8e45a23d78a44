package nvml

import (
	"errors"

	"dev.gpustall/engine/base/errs"
)

// ErrNoDriver means that there is no NVIDIA driver here.
var ErrNoDriver = errors.New("no NVIDIA driver")

// failed says what the library cannot do here.
func failed(op, object, reason string) *errs.Error {
	return errs.New(op, object, reason, "the gauges of the GPU are missing, nothing else; nvidia-smi tells what the driver has")
}

// Gauge is one reading: SI units, and shares in percent, as NVML has them.
type Gauge struct {
	Name  string
	Value float64
}

// Names of gauges.
const (
	Util        = "nvml_util"
	MemoryUtil  = "nvml_memory_util"
	MemoryUsed  = "nvml_memory_used"  // bytes
	MemoryTotal = "nvml_memory_total" // bytes
	Power       = "nvml_power"        // W
	Temperature = "nvml_temperature"  // degrees Celsius
	SMClock     = "nvml_sm_clock"     // Hz
	MemoryClock = "nvml_memory_clock" // Hz
	Hot         = "nvml_hot"          // 100 while heat lowers the clock, else 0
	PowerCapped = "nvml_power_capped" // 100 while the power limit lowers the clock, else 0
	PCIeRx      = "nvml_pcie_rx"      // bytes/s into the GPU
	PCIeTx      = "nvml_pcie_tx"      // bytes/s out of the GPU
	SMActivity  = "gpm_sm"
	SMOccupancy = "gpm_occupancy"
	TensorUtil  = "gpm_tensor"
	DRAMUtil    = "gpm_dram"
	GPMPCIeRx   = "gpm_pcie_rx" // bytes/s
	GPMPCIeTx   = "gpm_pcie_tx" // bytes/s
)
