package trace

import (
	"testing"

	"dev.gpustall/engine/base/knob"
)

func TestBatchIn(t *testing.T) {
	for of, want := range map[string][2]float64{
		"": {}, "1 tensor, 64 B in all": {1, 64}, "2 tensors, 38.5 MiB in all": {2, 38.5 * (1 << 20)}, "1,040 tensors, 1.0 GiB in all": {1040, 1 << 30},
	} {
		tensors, bytes := BatchIn([]knob.Setting{{Name: BatchOf, Value: of}})
		if got := [2]float64{tensors, bytes}; got != want {
			t.Errorf("%q: %v, want %v", of, got, want)
		}
	}
}
