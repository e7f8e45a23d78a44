package trace

import (
	"cmp"
	"fmt"
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

// String lists the parts, the largest first.
func (m Memory) String() string {
	type part struct {
		name string
		n    int64
	}
	parts := []part{{"activations", m.Activations}, {"parameters", m.Parameters}, {"inputs", m.Inputs}, {"kernels", m.Kernels}}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.n, a.n) })
	var out []string
	for _, p := range parts {
		if p.n > 0 {
			out = append(out, p.name+" "+Bytes(p.n))
		}
	}
	return strings.Join(out, ", ")
}

// Bytes writes a size for people, in units of 1024.
func Bytes(n int64) string {
	switch f := float64(n); {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", f/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.0f MiB", f/(1<<20))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", f/(1<<20))
	}
	return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
}
