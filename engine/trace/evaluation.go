package trace

// Evaluation is what a model did on the test split, between two steps.
type Evaluation struct {
	At      int64 // ns, when it was done
	Epoch   int32 // of the step before
	Step    int32 // steps before it
	Samples int64
	Loss    float64 // mean of the samples'
	Top1    float64 // share of them whose likeliest class was right
	Took    int64   // ns; no share and no epoch counts them
}

// The gauges that an evaluation is recorded as, all at the same moment.
const (
	GaugeTestLoss    = "test_loss"
	GaugeTestTop1    = "test_top1"
	GaugeTestSamples = "test_samples"
	GaugeTestEpoch   = "test_epoch"
	GaugeTestStep    = "test_step"
	GaugeTestTook    = "test_took" // ns
)

// GaugeTestBegun is recorded when an evaluation begins: its epoch.
const GaugeTestBegun = "test_begun"

// Evaluation records the result of an evaluation.
func (r *Recorder) Evaluation(e Evaluation) {
	for _, g := range []struct {
		name string
		v    float64
	}{
		{GaugeTestLoss, e.Loss}, {GaugeTestTop1, e.Top1}, {GaugeTestSamples, float64(e.Samples)},
		{GaugeTestEpoch, float64(e.Epoch)}, {GaugeTestStep, float64(e.Step)}, {GaugeTestTook, float64(e.Took)},
	} {
		r.Gauge(g.name, g.v)
	}
}

// Evaluations returns those of the session, the oldest first.
func (s *Snapshot) Evaluations() []Evaluation {
	n := len(s.Gauges[GaugeTestLoss])
	of := func(name string, i int) float64 {
		if points := s.Gauges[name]; i < len(points) {
			return points[i].V
		}
		return 0
	}
	out := make([]Evaluation, n)
	for i, p := range s.Gauges[GaugeTestLoss] {
		out[i] = Evaluation{
			At: p.T, Loss: p.V, Top1: of(GaugeTestTop1, i), Samples: int64(of(GaugeTestSamples, i)),
			Epoch: int32(of(GaugeTestEpoch, i)), Step: int32(of(GaugeTestStep, i)), Took: int64(of(GaugeTestTook, i)),
		}
	}
	return out
}

// Evaluating reports whether an evaluation is under way.
func (s *Snapshot) Evaluating() bool {
	return s.Outcome.Ended == 0 && len(s.Gauges[GaugeTestBegun]) > len(s.Gauges[GaugeTestLoss])
}

// EvaluatedAt reports whether the model was being evaluated at a moment, in ns.
func (s *Snapshot) EvaluatedAt(t int64) bool {
	for _, e := range s.Evaluations() {
		if e.At-e.Took <= t && t < e.At {
			return true
		}
	}
	return false
}

// EvaluationOf returns the last evaluation after a step of an epoch.
func (s *Snapshot) EvaluationOf(epoch int32) (e Evaluation, ok bool) {
	for _, v := range s.Evaluations() {
		if v.Epoch == epoch {
			e, ok = v, true
		}
	}
	return e, ok
}
