package prepared

import (
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// transforms returns the operations of the transforms that the device runs on batches with a
// layout, or nil where there are none.
func transforms(steps []loader.DeviceStep, at loader.Layout) func(n int) []kernels.Op {
	if len(steps) == 0 {
		return nil
	}
	return func(n int) []kernels.Op {
		ops := make([]kernels.Op, len(steps))
		for i, s := range steps {
			r := kernels.Record{Words: at.Record, At: s.At}
			switch s.Kind {
			case loader.DeviceResample:
				op := kernels.Resample{N: n, OutH: s.OutH, OutW: s.OutW, In: 3 * s.InH * s.InW, Record: r}
				if s.InH == 0 {
					op.In, op.Packed = at.Sent(), true
				}
				ops[i] = op
			case loader.DeviceShift:
				ops[i] = kernels.Shift{N: n, H: s.InH, W: s.InW, OutH: s.OutH, OutW: s.OutW, Record: r}
			case loader.DeviceBlur:
				ops[i] = kernels.Blur{N: n, H: s.InH, W: s.InW, Taps: s.Taps, Record: r}
			case loader.DeviceColours:
				ops[i] = kernels.Colours{N: n, H: s.InH, W: s.InW, Record: r}
			default:
				panic("prepared: no operation for " + s.Kind)
			}
		}
		return ops
	}
}
