package trace

import "testing"

func TestMemoryString(t *testing.T) {
	m := Memory{Activations: 3 << 29, Parameters: 45 << 20, Inputs: 3<<19 + 1, Kernels: 0}
	if got, want := m.String(), "activations 1.5 GiB, parameters 45 MiB, inputs 1.5 MiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := m.Total(), int64(3<<29+45<<20+3<<19+1); got != want {
		t.Errorf("Total is %d, want %d", got, want)
	}
	m = Memory{Activations: 2000, Kernels: 5000}
	if got, want := m.String(), "kernels 5 KiB, activations 2 KiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
