package attribution

import (
	"math"
	"math/rand/v2"
	"testing"

	"dev.gpustall/engine/trace"
)

// TestSettling: runs with equal epochs hardly ever count as settling, even if steps are
// correlated for long. Most runs that wait far longer in the first epoch do. They do not if so
// few of its steps are independent that it may be chance.
func TestSettling(t *testing.T) {
	const runs = 100
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		epochs, steps int
		hangs, spread float64 // how a step's wait follows the one before, and the deviation of its logarithm
		slower        float64 // the first epoch's waits
		least, most   int     // that settle, of 100
	}{
		{2, 60, 0.9, 1, 1, 0, 5}, {3, 100, 0.95, 1, 1, 0, 5}, {20, 100, 0.95, 1, 1, 0, 5}, {20, 10, 0.9, 1, 1, 0, 5}, {60, 60, 0.9, 0.5, 1, 0, 5},
		{2, 60, 0.3, 0.3, 5, 90, 100}, {3, 100, 0.5, 0.5, 20, 90, 100}, {5, 300, 0.7, 0.5, 5, 90, 100}, {20, 100, 0.95, 1, 20, 90, 100}, {60, 60, 0.9, 0.5, 20, 90, 100},
		{2, 60, 0.9, 1, 20, 0, 5},
		{4, 20, 0.9, 1, 1, 0, 5}, {6, 40, 0.95, 1, 1, 0, 5}, {12, 10, 0.9, 1, 1, 0, 5},
		{4, 40, 0.3, 0.3, 9, 90, 100}, {6, 40, 0.5, 0.5, 9, 90, 100}, {3, 40, 0.3, 0.3, 9, 0, 5},
	} {
		found := 0
		for range runs {
			d := new(trace.Digest)
			x, at := r.NormFloat64(), int64(0)
			for i := range int32(c.epochs * c.steps) {
				x = c.hangs*x + math.Sqrt(1-c.hangs*c.hangs)*r.NormFloat64()
				wait := 10e6 * math.Exp(c.spread*x)
				if int(i) < c.steps {
					wait *= c.slower
				}
				st := trace.Step{Index: i, Epoch: i / int32(c.steps), Samples: 32, Correct: -1, Start: at, End: at + 50e6 + int64(wait), Busy: 50e6}
				st.Stall[trace.CauseFetch] = int64(wait)
				if (int(i)+1)%c.steps == 0 {
					st.Flags = trace.FlagLastOfEpoch
				}
				at = st.End
				d.Add(&st)
			}
			s := &trace.Snapshot{Segments: []trace.Segment{{}}, Digest: *d}
			if x, ok := SettlingOf(s, 0, 0.05); ok {
				found++
				if x.First != 0 || int(x.Last) != c.epochs-1 || x.Step != (x.Until+1)*int32(c.steps) || x.Before.Steps+x.Since.Steps != d.Total.Steps {
					t.Fatalf("%+v: it settled so: %+v", c, x)
				}
			}
		}
		if found < c.least || found > c.most {
			t.Errorf("%+v: %d of %d seem to settle", c, found, runs)
		}
	}
}
