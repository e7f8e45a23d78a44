package summary

import (
	"math"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// learning is what the last epoch learnt.
type learning struct {
	Loss     number `json:"loss"`
	Top1     number `json:"top1"`
	Diverged *int32 `json:"diverged"` // the first step whose loss is not a number, or null
}

// learnt returns what the last epoch learnt.
func learnt(s *trace.Snapshot, epochs []epochSummary) learning {
	l := learning{Loss: none, Top1: none, Diverged: brokeAt(s)}
	if n := len(epochs); n > 0 {
		l.Loss, l.Top1 = epochs[n-1].Loss, epochs[n-1].Top1
	}
	return l
}

// lossText writes a loss. It is "-" on a device that does not compute, which has no top1 either.
// A loss that is not a number does have a top1.
func lossText(loss, top1 number) string {
	if math.IsNaN(float64(loss)) && math.IsNaN(float64(top1)) {
		return "-"
	}
	return units.Loss(float64(loss))
}

// learntIn returns the mean loss and top-1 share over steps. Both are NaN on a device that does
// not compute.
func learntIn(steps []trace.Step) (loss, top1 number) {
	var n, hits, sum float64
	for i := range steps {
		if s := &steps[i]; s.Correct >= 0 {
			n += float64(s.Samples)
			hits += float64(s.Correct)
			sum += float64(s.Loss) * float64(s.Samples)
		}
	}
	return number(sum / n), number(hits / n) // NaN where n is 0
}

// brokeAt returns the first step whose loss is not a number, or nil.
func brokeAt(s *trace.Snapshot) *int32 {
	if s.Diverged == 0 {
		return nil
	}
	step := s.DivergedAt
	return &step
}

// lossScale is the state of fp16's dynamic loss scale.
type lossScale struct {
	Scale        number `json:"scale"`
	Skipped      int64  `json:"skipped_steps"`
	LastOverflow *int32 `json:"last_overflow_step"` // null if no gradient overflowed
}

func scaleSummary(s *trace.Snapshot) *lossScale {
	l, ok := s.LossScale()
	if !ok {
		return nil
	}
	out := &lossScale{Scale: number(l.Scale), Skipped: l.Skipped}
	if l.LastOverflow >= 0 {
		out.LastOverflow = &l.LastOverflow
	}
	return out
}

// epochSummary is one epoch.
type epochSummary struct {
	Epoch    int32  `json:"epoch"`
	Total    number `json:"total_s"`
	Load     number `json:"load_s"`
	Train    number `json:"train_s"`
	Wait     number `json:"data_wait_s"`
	Loss     number `json:"loss"`
	Top1     number `json:"top1"`
	Complete bool   `json:"complete"`
	Injected int    `json:"injected_steps"` // how many steps of the epoch
	Ceiling  int    `json:"ceiling_steps"`

	*testSummary // the evaluation after the epoch
}

func epochTable(s *trace.Snapshot) []epochSummary {
	out := []epochSummary{}
	for _, e := range attribution.Epochs(s) {
		out = append(out, epochSummary{
			e.Epoch, seconds(e.Total), seconds(e.Load), seconds(e.Train), seconds(e.Wait),
			number(e.Loss), number(e.Top1), e.Complete, e.Injected, e.Ceiling, testOf(s, e.Epoch),
		})
	}
	return out
}

// testSummary is what an evaluation on the test split found.
type testSummary struct {
	Loss    number `json:"test_loss"`
	Top1    number `json:"test_top1"`
	Samples int64  `json:"test_samples"`
	Took    number `json:"evaluate_s"` // no share counts it, nor does total_s
}

func testOf(s *trace.Snapshot, epoch int32) *testSummary {
	e, ok := s.EvaluationOf(epoch)
	if !ok {
		return nil
	}
	return &testSummary{number(e.Loss), number(e.Top1), e.Samples, seconds(e.Took)}
}
