package trace

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// someSteps makes n consecutive steps with uneven times, a new segment every
// perSegment and a new epoch every perEpoch steps.
func someSteps(n, perSegment, perEpoch int) []Step {
	r := rand.New(rand.NewPCG(1, 2))
	steps := make([]Step, n)
	var at int64
	for i := range steps {
		s := &steps[i]
		*s = Step{Index: int32(i), Batch: int32(i), Segment: int32(i / perSegment), Epoch: int32(i / perEpoch), Samples: 32, Correct: 3, Loss: 1.5}
		s.Start = at
		s.Busy = 1e6 + r.Int64N(1e6)
		s.Stall[CauseRead] = int64(1e6 * math.Exp(2*r.NormFloat64()))
		s.End = s.Start + s.Busy + s.Stall[CauseRead]
		at = s.End
		if i%perSegment < 3 && i >= perSegment {
			s.Flags |= FlagTransition
		}
		if i%perEpoch == 0 {
			s.Flags |= FlagFirstOfEpoch
		}
		if i%perEpoch == perEpoch-1 {
			s.Flags |= FlagLastOfEpoch
		}
	}
	return steps
}

// TestDigestAddsUp compares a digest with sums over the steps themselves.
func TestDigestAddsUp(t *testing.T) {
	steps := someSteps(20_000, 7000, 3000)
	steps[5].Loss = float32(math.NaN())
	d := Digested(steps)
	var total Totals
	for i := range steps {
		total.Add(&steps[i])
	}
	if d.Total != total || d.Total.Busy+d.Total.Stall[CauseRead] != d.Total.Wall {
		t.Fatalf("total %+v, want %+v", d.Total, total)
	}
	if d.Diverged != 1 || d.DivergedAt != 5 || d.First.Index != 0 || d.Last.Index != 19_999 {
		t.Errorf("diverged %d at %d, steps %d to %d", d.Diverged, d.DivergedAt, d.First.Index, d.Last.Index)
	}
	if len(d.Tallies) != 3 || len(d.Epochs) != 7 {
		t.Fatalf("%d tallies and %d epochs", len(d.Tallies), len(d.Epochs))
	}
	for i, tally := range d.Tallies {
		own := steps[i*7000 : min(len(steps), (i+1)*7000)]
		if want := Count(own); tally.Steady != want.Steady || tally.All != want.All {
			t.Errorf("segment %d: %+v, want %+v", i, tally.Steady, want.Steady)
		}
		var blocks Block
		for j, b := range tally.Blocks.List() {
			if blocks.add(&b); j+1 < len(tally.Blocks.List()) && b.Steps != tally.Blocks.length {
				t.Errorf("segment %d: a block of %d steps among those of %d", i, b.Steps, tally.Blocks.length)
			}
		}
		squares := 0.0
		for j := len(own) - int(tally.Steady.Steps); j < len(own); j++ { // the first ones are left out
			squares += float64(own[j].Active()) * float64(own[j].Active())
		}
		if math.Abs(blocks.Squares/squares-1) > 1e-9 {
			t.Errorf("segment %d: the squares of the blocks add up to %g, those of its steps to %g", i, blocks.Squares, squares)
		}
		blocks.Squares = 0
		if s := &tally.Steady; blocks != (Block{s.Steps, s.Samples, s.Active(), s.Busy, 0}) {
			t.Errorf("segment %d: the blocks add up to %+v, its steps to %+v", i, blocks, s)
		}
		wantOut := int64(3)
		if i == 0 {
			wantOut = 1
		}
		if tally.Excluded() != wantOut {
			t.Errorf("segment %d: %d steps are left out, want %d", i, tally.Excluded(), wantOut)
		}
	}
	for i, want := range []struct {
		segment  int32
		complete bool
		diverged int64
	}{{0, true, 1}, {0, true, 0}, {-1, true, 0}, {1, true, 0}, {-1, true, 0}, {2, true, 0}, {2, false, 0}} {
		if e := d.Epochs[i]; e.Segment != want.segment || e.Complete != want.complete || e.Diverged != want.diverged {
			t.Errorf("epoch %d: %+v, want %+v", i, e, want)
		}
	}
	if first := d.Tallies[0]; first.Epochs != 2 || first.EpochTime != d.Epochs[0].Totals.Active()+d.Epochs[1].Totals.Active() {
		t.Errorf("segment 0 ran %d epochs in %d ns", first.Epochs, first.EpochTime)
	}
}

// TestDigestQuantiles: exact while there are few steps, within 0.8 % beyond.
func TestDigestQuantiles(t *testing.T) {
	for _, n := range []int{1, 2, 10, 511, 512, 513, 5000, 100_000} {
		steps := someSteps(n, n+1, n+1)
		for i := range steps {
			steps[i].Flags = uint16(i%7/6) * FlagTimed
		}
		var want []int64
		for i := range steps {
			want = append(want, steps[i].Active())
		}
		slices.Sort(want)
		tally := Count(steps)
		for _, q := range []float64{0, 0.01, 0.5, 0.95, 0.99, 1} {
			got, exact := tally.Quantile(q), want[max(0, int(math.Ceil(q*float64(n)))-1)]
			bound := 0.008 * float64(exact)
			if n <= exactValues {
				bound = 0
			}
			if math.Abs(float64(got-exact)) > bound {
				t.Errorf("%d steps, quantile %g: %d, want %d", n, q, got, exact)
			}
		}
	}
	for v := int64(0); v < 1<<40; v += 1 + v/500 {
		if m := bucketMiddle(bucketOf(v)); math.Abs(float64(m-v)) > 0.008*float64(v) {
			t.Fatalf("%d is counted as %d", v, m)
		}
	}
}

// TestDigestView: a reader's view does not move while steps arrive.
func TestDigestView(t *testing.T) {
	steps := someSteps(3000, 1000, 700)
	d := Digested(steps[:1500])
	v := d.view()
	for i := range steps[1500:] {
		d.Add(&steps[1500+i])
	}
	want := Digested(steps[:1500])
	if v.Total != want.Total || len(v.Tallies) != 2 || v.Tally(1).All != want.Tally(1).All || v.Tally(1).Quantile(0.5) != want.Tally(1).Quantile(0.5) ||
		v.Epochs[2].Totals != want.Epochs[2].Totals || !slices.Equal(v.Tally(1).Blocks.List(), want.Tally(1).Blocks.List()) || !slices.Equal(v.History.Points, want.History.Points) {
		t.Error("the view has changed")
	}
	if d.Tally(2).All.Steps != 1000 || d.Total.Steps != 3000 {
		t.Errorf("the digest has %d steps, %d in segment 2", d.Total.Steps, d.Tally(2).All.Steps)
	}
}

// TestHistory: busy time and samples of whole buckets are those of the steps,
// before and after the buckets were made longer.
func TestHistory(t *testing.T) {
	steps := someSteps(300_000, 1e6, 1e6)
	for i := range steps { // some 5 hours
		steps[i].Start, steps[i].End = int64(i)*60e6, int64(i+1)*60e6
		steps[i].Busy = 30e6
	}
	d := Digested(steps)
	h := d.History
	if len(h.Points) > maxHistory || h.Bucket != 800e6 {
		t.Fatalf("%d buckets of %d ns", len(h.Points), h.Bucket)
	}
	for i, p := range h.Points {
		if math.Abs(float64(p.Busy)-400e6) > 4e6 || math.Abs(float64(p.StepTime/p.Steps)-60e6) > 1e6 {
			t.Fatalf("bucket %d: %+v", i, p)
		}
	}
}

// TestDigestBounded: however many segments and epochs there are, the first and
// the newest are kept.
func TestDigestBounded(t *testing.T) {
	d := Digested(someSteps(12_000, 4, 3))
	if len(d.Tallies) != MaxRows || len(d.Epochs) != MaxRows {
		t.Fatalf("%d tallies, %d epochs", len(d.Tallies), len(d.Epochs))
	}
	if d.Tallies[0].Segment != 0 || d.Tallies[MaxRows-1].Segment != 2999 || d.Epochs[MaxRows-1].Epoch != 3999 || d.Epochs[FirstRows-1].Epoch != FirstRows-1 {
		t.Error("the wrong rows were forgotten")
	}
	if d.Total.Steps != 12_000 {
		t.Errorf("%d steps in total", d.Total.Steps)
	}
}

func BenchmarkDigestAdd(b *testing.B) {
	steps := someSteps(10_000, 5000, 3000)
	b.ReportAllocs()
	d := new(Digest)
	for i := 0; b.Loop(); i++ {
		s := steps[i%len(steps)]
		s.Segment, s.Epoch = 0, 0
		d.Add(&s)
	}
}
