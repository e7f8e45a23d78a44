package trace

import (
	"cmp"
	"slices"
	"strings"
)

// Memory is the device memory that a run plans for, in bytes, before it allocates
// any.
type Memory struct {
	Activations int64 // and their gradients
	Parameters  int64 // with their gradients, momentum, statistics and 16-bit copy
	Inputs      int64 // the batches that lie on the device
	Kernels     int64 // scratch memory, where the device says how much
}

// Total returns the sum of the parts.
func (m Memory) Total() int64 { return m.Activations + m.Parameters + m.Inputs + m.Kernels }

// List names the parts, the largest first, each with its size; size writes a number of bytes.
func (m Memory) List(size func(bytes int64) string) string { return listParts(m.parts(), size) }

func (m Memory) parts() []part {
	return []part{{"activations", m.Activations}, {"parameters", m.Parameters}, {"inputs", m.Inputs}, {"kernels", m.Kernels}}
}

// HostMemory is the memory of the host that a run plans for, in bytes.
type HostMemory struct {
	Evaluation int64  `json:",omitempty"` // of the test split's own loader, while the model is evaluated
	Batches    int64  // of the loader's slots
	Pinned     int64  // the part of Batches that is page-locked
	Workers    int64  // the samples that workers have at hand
	Device     Memory // what the device keeps on the host: all of its memory if it is the cpu
	Session    int64  // what is recorded, in a long run (see SessionBytes)
	Saved      int64  `json:",omitempty"` // the copy of parameters and optimizer that a checkpoint is written from
	Process    int64  // what is held before the run: the program, and a data set that is kept in memory
	Mapped     int64  `json:",omitempty"` // not in Total: the data sets' mapped files, which stay resident until the system needs the memory
}

// Total returns the sum of the parts.
func (m HostMemory) Total() int64 {
	return m.Batches + m.Workers + m.Device.Total() + m.Session + m.Saved + m.Evaluation + m.Process
}

// List names the parts as Memory.List does.
func (m HostMemory) List(size func(bytes int64) string) string {
	batches := part{"batches", m.Batches - m.Pinned}
	return listParts(append(m.Device.parts(), batches, part{"page-locked batches", m.Pinned},
		part{"samples at hand", m.Workers}, part{"session", m.Session}, part{"checkpoint", m.Saved}, part{"evaluation", m.Evaluation}, part{"process and data set", m.Process}), size)
}

// Beside says what may be resident in addition to Total; it is empty where nothing is.
func (m HostMemory) Beside(size func(bytes int64) string) string {
	if m.Mapped == 0 {
		return ""
	}
	return "beside it up to " + size(m.Mapped) + " of the data set's files, mapped, which the system takes back when memory is short"
}

// part of a memory, in bytes.
type part struct {
	name string
	n    int64
}

func listParts(parts []part, size func(bytes int64) string) string {
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.n, a.n) })
	var out []string
	for _, p := range parts {
		if p.n > 0 {
			out = append(out, p.name+" "+size(p.n))
		}
	}
	return strings.Join(out, ", ")
}
