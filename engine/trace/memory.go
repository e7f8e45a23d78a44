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

// Total is the sum of the parts.
func (m Memory) Total() int64 { return m.Activations + m.Parameters + m.Inputs + m.Kernels }

// List names the parts, the largest first, each with its size as written by size.
func (m Memory) List(size func(bytes int64) string) string {
	type part struct {
		name string
		n    int64
	}
	parts := []part{{"activations", m.Activations}, {"parameters", m.Parameters}, {"inputs", m.Inputs}, {"kernels", m.Kernels}}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.n, a.n) })
	var out []string
	for _, p := range parts {
		if p.n > 0 {
			out = append(out, p.name+" "+size(p.n))
		}
	}
	return strings.Join(out, ", ")
}
