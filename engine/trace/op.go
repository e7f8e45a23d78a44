package trace

import (
	"cmp"
	"slices"
	"strings"
)

// OpTime is the device time of one launch of the step, added up over the timed
// steps of one segment.
type OpTime struct {
	ID      uint32 // unique in the run; spans name the row by it, and later rows have larger ones
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
	Bytes   float64 // of all calls together, from the shape: the least that they must move
}

func compareOps(o OpTime, id uint32) int { return cmp.Compare(o.ID, id) }

// mergeOps puts rows into have, which is in the order of ID. A row replaces the one of the same ID.
func mergeOps(have, rows []OpTime) []OpTime {
	for i := range rows {
		at, found := slices.BinarySearchFunc(have, rows[i].ID, compareOps)
		if found {
			have[at] = rows[i]
		} else {
			have = slices.Insert(have, at, rows[i])
		}
	}
	return have
}

// forgetOps drops the rows of segments that were forgotten (see MaxRows). It changes rows, which
// must be the caller's own.
func forgetOps(rows []OpTime, kept []Segment) []OpTime {
	if !lacksSegments(kept) {
		return rows
	}
	from, to := kept[FirstRows-1].Index, kept[FirstRows].Index
	return slices.DeleteFunc(rows, func(o OpTime) bool { return from < o.Segment && o.Segment < to })
}

// Op returns the row that a span of KindOp names; nil where the row is no longer kept.
func (s *Snapshot) Op(id uint32) *OpTime {
	if at, found := slices.BinarySearchFunc(s.Ops, id, compareOps); found {
		return &s.Ops[at]
	}
	return nil
}

// Gauges that the engine records when they change.
const (
	GaugePeakBytes    = "device_memory_peak_bytes" // the most that was held so far
	GaugeHeldBytes    = "device_memory_held_bytes"
	GaugePlannedBytes = "device_memory_planned_bytes" // what the run planned for, at the most so far
	GaugeLearningRate = "learning_rate"               // of the next step
	GaugeLossScale    = "loss_scale"                  // fp16: that of the next step
	GaugeSkippedSteps = "skipped_steps"               // fp16: updates skipped so far, because a gradient overflowed
	GaugeLastOverflow = "last_overflow_step"          // fp16
)

// IsEventGauge reports whether a gauge counts, or is recorded only when it changes. A mean of its
// samples then says nothing.
func IsEventGauge(name string) bool {
	switch name {
	case GaugePeakBytes, GaugeHeldBytes, GaugePlannedBytes, GaugeLearningRate, GaugeLossScale, GaugeSkippedSteps, GaugeLastOverflow,
		GaugeTestLoss, GaugeTestTop1, GaugeTestSamples, GaugeTestEpoch, GaugeTestStep, GaugeTestTook, GaugeTestBegun:
		return true
	}
	return strings.HasPrefix(name, rankPrefix)
}

// PeakBytes returns the most device memory that was held. Of a run that was killed it is the last
// that the run recorded.
func (s *Snapshot) PeakBytes() int64 {
	peak := s.Outcome.PeakBytes
	for _, p := range s.Gauges[GaugePeakBytes] {
		peak = max(peak, int64(p.V))
	}
	return peak
}

// HeldBytes returns the most device memory that was held in a segment; 0 when unknown. The step
// loop reads it at the segment's start and every two seconds, which is enough since memory is
// allocated when a plan is built, not by steps.
func (s *Snapshot) HeldBytes(g *Segment) int64 {
	var before, held int64
	for _, p := range s.Gauges[GaugeHeldBytes] {
		switch {
		case g.End > 0 && p.T >= g.End:
		case p.T <= g.Start:
			before = int64(p.V)
		default:
			held = max(held, int64(p.V))
		}
	}
	return max(before, held)
}

// LossScale is the dynamic loss scale of fp16 as it was last known.
type LossScale struct {
	Scale        float64
	Skipped      int64 // updates, because a gradient overflowed
	LastOverflow int32 // the step of the latest; -1 when there was none
}

// LossScale returns the state of fp16's loss scale, and whether there is one.
func (s *Snapshot) LossScale() (LossScale, bool) {
	l := LossScale{LastOverflow: -1}
	var ok bool
	if l.Scale, ok = s.Gauge(GaugeLossScale); !ok {
		return l, false
	}
	if n, ok := s.Gauge(GaugeSkippedSteps); ok {
		l.Skipped = int64(n)
	}
	if n, ok := s.Gauge(GaugeLastOverflow); ok {
		l.LastOverflow = int32(n)
	}
	return l, true
}

// PlannedBytes returns the most device memory that the run had planned for by time t, in ns; 0 when
// unknown.
func (s *Snapshot) PlannedBytes(t int64) int64 {
	var planned int64
	for _, p := range s.Gauges[GaugePlannedBytes] {
		if p.T <= t || planned == 0 {
			planned = int64(p.V)
		}
	}
	return planned
}
