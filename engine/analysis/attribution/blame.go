package attribution

import (
	"fmt"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Blamed is one of the batches that were waited for longest, or one of the samples that took
// longest.
type Blamed struct {
	Step, Batch, Epoch int32
	Sample             int32         // index in the data set of the slowest sample of the batch; -1 where no sample is to blame
	File               string        // where the sample lies; empty where that is not known
	Worker             trace.TrackID // TrackStep where it is not known
	Kind               trace.Kind    // the phase of the piece that took longest; KindNone where it is not known
	Took               int64         // ns: a batch's whole worker time, or a sample's time in Kind
	Split              trace.Split   // of Took; zero where it was not measured
	Rank               float64       // the share of the batches that took less: 0.99 is the 99th percentile
	Starved            int64         // ns that the device waited for the batch
	Seen               int32         // for a sample: how often it was the slowest of its batch
	Least              int64         // ns, its shortest time in these batches, without waits for a core
	Injected           bool          // part of the time was injected
	Opens              bool          // it is the first batch of its epoch
}

// Blame lists the batches that starved the device longest and the samples that took a worker
// longest, the worst first. Each list has at most trace.MaxWorst.
type Blame struct{ Batches, Samples []Blamed }

// Blames returns the worst batches and samples of the whole run until s.Now.
func Blames(s *trace.Snapshot) (b Blame) {
	w := s.Worst
	if w == nil {
		return b
	}
	for i := range w.Batches {
		if st := &w.Batches[i]; st.Start <= s.Now {
			row := blamed(s, st)
			row.Took, row.Split, row.Rank = st.Load, st.Work.Batch, w.Loads.Rank(st.Load)
			if k := longestPhase(st); k != trace.KindNone {
				row.Kind = k
			}
			b.Batches = append(b.Batches, row)
		}
	}
	for i := range w.Samples {
		if st := &w.Samples[i].Step; st.Start <= s.Now {
			row := blamed(s, st)
			p := &st.Built.Slowest
			row.Took, row.Split, row.Rank, row.Seen, row.Least = p.Took, p.Split, w.Pieces.Rank(p.Took), w.Samples[i].Seen, w.Samples[i].Least
			b.Samples = append(b.Samples, row)
		}
	}
	b.recall(s.Spans)
	return b
}

// blamed fills in what both kinds of rows have: batches and samples.
func blamed(s *trace.Snapshot, st *trace.Step) Blamed {
	row := Blamed{
		Step: st.Index, Batch: st.Batch, Epoch: st.Epoch, Sample: -1, Worker: st.Built.Worker, Kind: st.Built.Slowest.Kind, Starved: st.Starved(),
		Injected: st.Flags&trace.FlagInjected != 0, Opens: st.Flags&trace.FlagFirstOfEpoch != 0,
	}
	if p := &st.Built.Slowest; p.OfSample() {
		row.Sample, row.File = p.Sample, s.Files[p.Sample]
	}
	return row
}

// longestPhase returns the phase that took most of the batch's time, where most of that was
// measured phase by phase. Else it is the phase that the device waited for longest.
func longestPhase(st *trace.Step) (longest trace.Kind) {
	var most int64
	for k := trace.KindRead; k.IsPhase(); k++ {
		if ns := st.Work.Phases.Of(k).Total(); ns > most {
			longest, most = k, ns
		}
	}
	if all := st.Work.Phases.All(); most > 0 && 2*all.Total() >= st.Work.Batch.Total() {
		return longest
	}
	longest, most = trace.KindNone, 0
	for k := trace.KindRead; k.IsPhase(); k++ {
		if c, _ := k.Cause(); st.Stall[c] > most {
			longest, most = k, st.Stall[c]
		}
	}
	return longest
}

// recall looks for the workers of batches in the spans that are left, where their steps do not name
// them. That is so in sessions of older programs and in imported ones.
func (b *Blame) recall(spans []trace.Span) {
	unknown := map[int32]*Blamed{}
	for i := range b.Batches {
		if r := &b.Batches[i]; r.Worker == trace.TrackStep {
			unknown[r.Batch] = r
		}
	}
	if len(unknown) == 0 {
		return
	}
	for i := range spans {
		if s := &spans[i]; s.Kind.IsPhase() && s.Track.IsWorker() {
			if r := unknown[s.Batch]; r != nil {
				r.Worker = s.Track
			}
		}
	}
}

// Who returns the worker and its phase: "w3 decode".
func (r *Blamed) Who() string {
	worker, doing := "a worker", ""
	if r.Worker.IsWorker() {
		worker = r.Worker.String()
	}
	if r.Kind != trace.KindNone {
		doing = " " + r.Kind.String()
	}
	return worker + doing
}

// What returns the sample that took longest: its file, or its number.
func (r *Blamed) What() string {
	switch {
	case r.Sample < 0:
		return ""
	case r.File != "":
		return r.File
	}
	return "sample " + units.Count(r.Sample)
}

// Percentile returns the rank in words: "p99". It is empty unless fewer than ten in a hundred took
// longer.
func (r *Blamed) Percentile() string {
	if r.Rank < 0.9 {
		return ""
	}
	return fmt.Sprintf("p%d", int(100*min(r.Rank, 0.99)))
}

// Note says what else made the device wait for the batch.
func (r *Blamed) Note() string {
	switch {
	case r.Injected:
		return "injected"
	case r.Opens:
		return "epoch start"
	}
	return ""
}

// String returns a row in words: "w3 decode 118 ms, 31.0 ms of it waiting for a core, p99,
// device idle 70.0 ms".
func (r *Blamed) String() string {
	text := r.Who() + " " + units.Prose.Time(r.Took) + Waiting(r.Split)
	if p := r.Percentile(); p != "" {
		text += ", " + p
	}
	if r.Starved > 0 {
		text += ", device idle " + units.Prose.Time(r.Starved)
	}
	return text
}
