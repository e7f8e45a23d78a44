package summary

import "dev.gpustall/engine/trace"

// memory is the peak memory of device and host, beside the planned memory.
type memory struct {
	PeakBytes   int64        `json:"peak_memory_bytes"`
	Planned     planned      `json:"planned_memory"`
	HostPeak    int64        `json:"peak_host_memory_bytes,omitempty"` // resident
	HostPlanned *hostPlanned `json:"planned_host_memory,omitempty"`
}

func memoryOf(s *trace.Snapshot) memory {
	o := &s.Outcome
	return memory{PeakBytes: s.PeakBytes(), Planned: plannedOf(o.Planned), HostPeak: o.HostPeak, HostPlanned: hostPlannedOf(o.HostPlanned)}
}

// planned is the device memory that was planned before the run.
type planned struct {
	Total       int64 `json:"total_bytes"`
	Activations int64 `json:"activations_bytes"`
	Parameters  int64 `json:"parameters_bytes"`
	Inputs      int64 `json:"inputs_bytes"`
	Kernels     int64 `json:"kernels_bytes"`
}

func plannedOf(m trace.Memory) planned {
	return planned{m.Total(), m.Activations, m.Parameters, m.Inputs, m.Kernels}
}

// hostPlanned is the host memory that was planned before the run.
type hostPlanned struct {
	Total   int64   `json:"total_bytes"`
	Batches int64   `json:"batches_bytes"`
	Pinned  int64   `json:"pinned_bytes"` // part of batches_bytes
	Workers int64   `json:"workers_bytes"`
	Device  planned `json:"device"` // the device's memory on the host
	Session int64   `json:"session_bytes"`
	Saved   int64   `json:"checkpoint_bytes,omitempty"`
	Process int64   `json:"process_bytes"`
	Mapped  int64   `json:"mapped_bytes,omitempty"` // mapped files, not part of the total
}

// hostPlannedOf returns nil if nothing was planned.
func hostPlannedOf(m trace.HostMemory) *hostPlanned {
	if m.Total() == 0 {
		return nil
	}
	return &hostPlanned{m.Total(), m.Batches, m.Pinned, m.Workers, plannedOf(m.Device), m.Session, m.Saved, m.Process, m.Mapped}
}
