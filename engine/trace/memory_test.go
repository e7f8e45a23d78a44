package trace

import (
	"strconv"
	"testing"
)

func TestMemoryList(t *testing.T) {
	size := func(n int64) string { return strconv.FormatInt(n, 10) + " B" }
	m := Memory{Activations: 900, Parameters: 45, Inputs: 60}
	if got, want := m.List(size), "activations 900 B, inputs 60 B, parameters 45 B"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := m.Total(), int64(1005); got != want {
		t.Errorf("Total is %d, want %d", got, want)
	}
	h := HostMemory{Batches: 30, Pinned: 10, Device: m, Mapped: 147}
	if got, want := h.List(size), "activations 900 B, inputs 60 B, parameters 45 B, batches 20 B, page-locked batches 10 B"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := h.Beside(size), "beside it up to 147 B of the data set's files, mapped, which the system takes back when memory is short"; got != want || h.Total() != 1035 {
		t.Errorf("%q and %d in all, want %q", got, h.Total(), want)
	}
	if got := (HostMemory{Batches: 30}).Beside(size); got != "" {
		t.Errorf("%q where nothing is mapped", got)
	}
	m = Memory{Activations: 2000, Kernels: 5000}
	if got, want := m.List(size), "kernels 5000 B, activations 2000 B"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
