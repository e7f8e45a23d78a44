package loader

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// OnError says what happens to a batch with a sample that cannot be loaded.
type OnError uint8

const (
	Stop OnError = iota // Next returns the error
	Skip                // the batch is delivered without the sample
)

var onErrors = []string{Stop: "stop", Skip: "skip"}

func (o *OnError) String() string { return onErrors[*o] }

// UnmarshalText is the inverse of String.
func (o *OnError) UnmarshalText(text []byte) error {
	i := slices.Index(onErrors, string(text))
	if i < 0 {
		return errs.Reason("neither stop nor skip", "choose one of the two")
	}
	*o = OnError(i)
	return nil
}

// loadChunk takes the next samples, from row on, through the phases together, and returns how
// many these were.
func (w *worker) loadChunk(ctx context.Context, s *slot, row int) (n int, err error) {
	packed := s.packed
	defer func() {
		if err != nil { // the chunk will be loaded again
			s.packed = packed
		}
	}()
	if s.onError == Skip {
		defer func() {
			if p := recover(); p != nil {
				w.scratch = w.scratch[:0] // in an unknown state
				n, err = 0, w.failure(s, fmt.Errorf("panic: %v", p), debug.Stack())
			}
		}()
	}
	w.grow(s.N, s.reads)
	c := w.scratch[:min(w.chunk(s.N, s.reads), len(w.scratch), s.N-row)]
	for j := range c {
		c[j].Index, c[j].Epoch, c[j].Ahead, c[j].FirstByte = int(s.Samples[row+j]), s.Epoch, s.reads, 0
	}
	if n, err = w.read(ctx, s, c, row); err != nil {
		return 0, err
	}
	if n, err = w.decode(s, c[:n]); err != nil {
		return 0, err
	}
	if err = w.transform(ctx, s, c[:n], row); err != nil {
		return 0, err
	}
	w.settle(c[:n])
	return n, nil
}

// skip removes the sample that err is about from the batch, if on_error says so. The rest of
// its chunk is then loaded again.
func (w *worker) skip(ctx context.Context, s *slot, err error) bool {
	if s.onError != Skip || ctx.Err() != nil {
		return false
	}
	at := slices.Index(s.Samples, int32(w.index.Load()))
	if at < 0 { // no single sample is at fault
		return false
	}
	why := *w.failure(s, err, nil)
	why.Skipped = true
	s.skipped = append(s.skipped, &why)
	s.Samples = slices.Delete(s.Samples, at, at+1)
	s.N--
	return true
}

// shrink lays the batch out for the samples that are left of n.
func (s *slot) shrink(info Info, n int) {
	from, to := NewLayout(info, n, s.Device), NewLayout(info, s.N, s.Device)
	if s.Device {
		copy(s.mem[to.Aug:], s.mem[from.Aug:from.Aug+4*from.Record*s.N])
	}
	if from.Packed {
		copy(s.mem[to.Samples:], s.mem[from.Samples:from.Samples+s.packed])
	}
	s.Host, s.LabelsOff, s.AugOff, s.begin = s.mem[:to.Size], to.Labels, to.Aug, to.Samples
}

// mostTold is how many skipped samples are named in the session, each once. All of them are
// counted, in each epoch again.
const mostTold = 100

// skips counts the samples that were left out of batches. Loader.mu guards it.
type skips struct {
	in      *input
	rec     *trace.Recorder // nil: there is no session to name them in
	samples int
	first   *SampleError // why the first was left out
	told    []int        // the indices of those named in the session
}

// count counts the samples that were left out of a batch.
func (k *skips) count(s *slot) {
	for _, err := range s.skipped {
		k.samples++
		if len(k.told) == mostTold || slices.Contains(k.told, err.Index) {
			continue
		}
		k.told = append(k.told, err.Index)
		if k.rec != nil {
			k.rec.Note(trace.LevelSkipped, trace.NoteSkipped(err.Error()+k.in.locate(err)))
		}
	}
	if k.first == nil {
		k.first = s.skipped[0]
	}
	s.skipped = s.skipped[:0]
}

// barren returns an error if no sample of a delivered epoch could be loaded, because all
// later epochs would be the same. n is the epoch's number.
func (k *skips) barren(e *epoch, n int) error {
	if e.pos == 0 || e.delivered > 0 || e.before || k.first == nil {
		return nil
	}
	return errs.New("load", k.in.info.Name, fmt.Sprintf("all %d samples of epoch %d were skipped by on_error=skip; first: %v", e.pos, n+1, k.first),
		"check the data, or see each error with on_error=stop")
}
