package loader

import (
	"context"
	"testing"
	"time"

	"dev.gpustall/engine/trace"
)

// remote is a data set in a store that takes three times as long to answer as to send.
type remote struct{ *numbers }

func (r remote) Read(ctx context.Context, s *Sample) error {
	began := time.Now()
	time.Sleep(6 * time.Millisecond)
	s.FirstByte += int64(time.Since(began)) * 3 / 4
	return r.numbers.Read(ctx, s)
}

// TestFirstByte: the time until a store begins to send is a phase of its own. It is one in
// the spans and in the division of worker time, with one or several reads at a time.
func TestFirstByte(t *testing.T) {
	for _, reads := range []int{1, 4} {
		var work trace.Work
		spans := record(t, Options{Dataset: remote{&numbers{samples: 64}}, Epochs: 1, Knobs: Knobs{BatchSize: 16, InOrder: true, NumWorkers: 1, ReadsInFlight: reads}},
			func(_ *Loader, b *Batch) { work.Add(&b.Work) })
		var took [trace.NumKinds]int64
		for id, s := range spans {
			for i := range s {
				if id.IsWorker() {
					took[s[i].Kind] += s[i].End - s[i].Start
				}
			}
		}
		first, read := took[trace.KindFirstByte], took[trace.KindRead]
		if part := float64(first) / float64(first+read); part < 0.7 || part > 0.8 {
			t.Errorf("%d reads: %v for the first byte, %v for the rest", reads, time.Duration(first), time.Duration(read))
		}
		f, r := work.Phases.Of(trace.KindFirstByte).Total(), work.Phases.Of(trace.KindRead).Total()
		if f+r > 0 && f <= r {
			t.Errorf("%d reads: worker time is %+v", reads, work.Phases)
		}
	}
}
