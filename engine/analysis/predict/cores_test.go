package predict

import (
	"fmt"
	"math"
	"testing"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// TestQuota: in a container with a CPU quota, others take only what the rest of the host has no room for.
func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		quota, ours, others, throttled float64 // cores, and percent of the periods
		left                           float64
		crowded, out                   bool
		says                           string
	}{
		{8, 3, 40, 0, 8, false, false, "~0.0 of the 8 cores of CPU quota"},
		{8, 3, 93, 0, 3, true, false, "~5.0 of the 8 cores of CPU quota"},
		{1.5, 1.45, 10, 0, 1.5, false, true, "~0.0 of the 1.5 cores of CPU quota"},
		{8, 5, 0, 20, 8, false, true, "~0.0 of the 8 cores of CPU quota"},
		{128, 3, 40, 20, 56, true, true, "~40.0 of the 96 cores"}, // the other processes of the cgroup use it up
		{0, 3, 40, 0, 56, true, false, "~40.0 of the 96 cores"},
	} {
		s := &trace.Snapshot{Gauges: map[string][]trace.Point{}}
		s.Meta.Host = []knob.Setting{{Name: "threads", Value: "96"}, {Name: "affinity", Value: "96 cpus: 0-95"}}
		if tt.quota > 0 {
			s.Meta.Host = append(s.Meta.Host, knob.Setting{Name: trace.CPUQuota, Value: fmt.Sprintf(trace.Quota, tt.quota)})
		}
		for name, v := range map[string]float64{trace.GaugeCPUOurs: tt.ours / 0.96, trace.GaugeCPUOthers: tt.others / 0.96, trace.GaugeThrottled: tt.throttled} {
			s.Gauges[name] = []trace.Point{{T: 1, V: v}}
		}
		c := CoresOf(s, 0, 2)
		if math.Abs(c.Left()-tt.left) > 1e-9 || c.Crowded() != tt.crowded || c.Throttled != tt.out || c.String() != "other processes use "+tt.says {
			t.Errorf("%+v: %+v: left %v, crowded %t: %s", tt, c, c.Left(), c.Crowded(), c.String())
		}
	}
}
