package trace

// OpTime is the device time of one launch of the step, added up over the timed
// steps of one segment.
type OpTime struct {
	Segment int32  // the Index of the segment
	Name    string // "conv_forward"
	Layer   string // "layer1.0.conv1"
	Phase   string // "forward", "backward", …; empty when unknown
	Variant string // of the kernel, where the device chose between several
	Calls   int64
	Total   int64   // ns
	Min     int64   // ns of the shortest call; 0 when unknown
	Max     int64   // ns of the longest
	FLOPs   float64 // of all calls together, from the shape
	Bytes   float64 // of all calls together, from the shape: the fewest that they can move
}

// Gauges that the engine records when they change.
const (
	GaugePeakBytes    = "device_memory_peak_bytes" // the most that was held so far
	GaugeHeldBytes    = "device_memory_held_bytes"
	GaugePlannedBytes = "device_memory_planned_bytes" // what the run planned for, at the most so far
	GaugeLossScale    = "loss_scale"                  // fp16: that of the next step
	GaugeSkippedSteps = "skipped_steps"               // fp16: updates skipped so far, because a gradient overflowed
	GaugeLastOverflow = "last_overflow_step"          // fp16
)

// PeakBytes is the most device memory that was held, as far as it is known: a run
// that was killed told it while it ran.
func (s *Snapshot) PeakBytes() int64 {
	peak := s.Outcome.PeakBytes
	for _, p := range s.Gauges[GaugePeakBytes] {
		peak = max(peak, int64(p.V))
	}
	return peak
}

// HeldBytes is the most device memory that was held in a segment, where its step
// loop looked: at its start and every two seconds; 0 when unknown. Memory is
// allocated when a plan is built, not by steps.
func (s *Snapshot) HeldBytes(g *Segment) int64 {
	var before, held int64
	for _, p := range s.Gauges[GaugeHeldBytes] {
		switch {
		case g.End > 0 && p.T > g.End:
		case p.T <= g.Start:
			before = int64(p.V)
		default:
			held = max(held, int64(p.V))
		}
	}
	return max(before, held)
}
