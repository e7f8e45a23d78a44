package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// dataRules are about the data itself: where it lies, and samples and workers that are far
// slower than the others. They say why, where no knob is left.
var dataRules = []Rule{
	{Name: "thrashing", Group: trace.GroupData, Last: true, Check: thrashing},
	{Name: "small files", Group: trace.GroupData, Last: true, Check: smallFiles},
	{Name: "slow worker", Group: trace.GroupData, Last: true, Check: slowWorker},
	{Name: "slow samples", Data: true, Check: slowSamples},
}

// fromStorage is how much was read from storage for this process between two moments, in
// bytes: what the page cache had is none of it. False where that was not measured.
func (s *situation) fromStorage(from, to int64) (bytes float64, known bool) {
	rate, _, n := s.snap.GaugeOver(trace.GaugeDiskOurs, from, to)
	return rate * float64(to-from) / 1e9, n > 0
}

// epochs are the first epoch's time and the newest one's that was run to its end; false
// where there are no two such epochs.
func (s *situation) epochs() (first, last passage, ok bool) {
	e := s.snap.Epochs
	at := s.snap.First.Start
	whole := 0
	for i := range e {
		p := passage{at, at + e[i].Totals.Wall, e[i].Totals}
		at = p.to
		if !e[i].Complete || i > 0 && e[i].Epoch != e[i-1].Epoch+1 {
			continue
		}
		if whole++; whole == 1 && i == 0 {
			first = p
		}
		last = p
	}
	return first, last, whole > 1 && first.to > first.from
}

// passage is an epoch's time in the run.
type passage struct {
	from, to int64 // ns
	trace.Totals
}

// perSample is its active time for a sample, in ns.
func (p *passage) perSample() float64 {
	return float64(p.Active()) / float64(max(1, p.Samples))
}

// dataShare is the share of its active time that it waited for data, 0 to 1.
func (p *passage) dataShare() float64 {
	b := attribution.Breakdown{Totals: p.Totals}
	return b.DataShare()
}

// leastStorage is how many bytes from storage an epoch reads, at least, before anything
// is said of the page cache: less is the program's own files.
const leastStorage = 16 << 20

// thrashing is for data that every epoch reads from storage again, because the page cache
// does not keep it until then.
func thrashing(s *situation) (f Finding, ok bool) {
	first, last, ok := s.epochs()
	if !ok {
		return f, false
	}
	once, _ := s.fromStorage(first.from, first.to)
	again, known := s.fromStorage(last.from, last.to)
	f = Finding{
		Remedy: "no knob helps here: give the page cache more memory, make the data smaller, or put it on faster storage",
		Evidence: fmt.Sprintf("an epoch still reads ~%s from storage where the first read ~%s: the page cache does not keep the data from one epoch to the next",
			units.Prose.Bytes(int64(again)), units.Prose.Bytes(int64(once))),
		Share: s.loads(),
	}
	return f, known && once >= leastStorage && 2*again >= once && s.loading.Reading()
}

// A file is small while a disk takes longer to find it than to bring it: 128 KiB take a
// disk of 500 MB/s a quarter of a millisecond.
const smallFile = 128 << 10

// smallFiles is for a data set of one small file a sample, read from storage.
func smallFiles(s *situation) (f Finding, ok bool) {
	bytes, known := s.fromStorage(s.from, s.to)
	each := bytes / float64(max(1, s.b.Samples))
	f = Finding{
		Remedy: "no knob helps here: pack the samples into large files (gpustall data pack), or put them on storage that finds files faster",
		Evidence: fmt.Sprintf("each sample is a file of its own, and ~%s of it come from storage, %s in all: finding the files takes the time, not their bytes",
			units.Prose.Bytes(int64(each)), units.Prose.Transfer(bytes/float64(max(1, s.to-s.from))*1e9)),
		Share: s.loads(),
	}
	return f, known && slices.Contains([]string{"imagefolder", "npy-folder"}, s.snap.Meta.Format) && bytes >= leastStorage && each >= 1<<10 && each < smallFile && s.loading.Reading()
}

// A worker or a sample is far slower than the others from so many times their median.
const (
	farSlowerWorker = 1.5
	farSlowerSample = 10
)

// slowWorker is for one worker that takes far longer for a batch than the others.
func slowWorker(s *situation) (f Finding, ok bool) {
	worker, its, others := s.slowestWorker()
	f = Finding{
		Remedy: "no knob helps here: find out what that worker has on its core, or in its part of the data",
		Evidence: fmt.Sprintf("%s takes %s for a batch, the others %s", worker,
			units.Prose.Time(int64(its)), units.Prose.Time(int64(others))),
		Share: s.loads(),
	}
	return f, others > 0 && its >= farSlowerWorker*others
}

// slowestWorker is the worker with the longest batches, how long those are, and the median
// of the others, in ns; 0 where there are too few.
func (s *situation) slowestWorker() (worker trace.TrackID, its, others float64) {
	var load, batches [trace.NumTracks]int64
	for i := range s.snap.Recent {
		st := &s.snap.Recent[i]
		if st.Segment == s.segment && st.Start >= s.from && st.End <= s.to && st.Built.Worker >= trace.TrackWorker0 && int(st.Built.Worker) < trace.NumTracks {
			load[st.Built.Worker] += st.Load
			batches[st.Built.Worker]++
		}
	}
	var means []float64
	for t := range load {
		if batches[t] < 3 {
			continue
		}
		mean := float64(load[t]) / float64(batches[t])
		means = append(means, mean)
		if mean > its {
			worker, its = trace.TrackID(t), mean
		}
	}
	if len(means) < 3 {
		return worker, its, 0
	}
	slices.Sort(means)
	return worker, its, means[(len(means)-1)/2]
}

// slowSamples is for samples that are far slower than others each time that they are
// loaded, so that it is they and not the host: what they waited for a core does not count.
func slowSamples(s *situation) (f Finding, ok bool) {
	w := s.snap.Worst
	const few = 50 // batches, to know what is usual
	if w == nil || w.Pieces.N() < few {
		return f, false
	}
	usual := trace.Quantile(0.5, &w.Pieces)
	b := attribution.Blames(s.snap)
	var worst *attribution.Blamed
	var lost int64
	n := 0
	for i := range b.Samples {
		r := &b.Samples[i]
		if r.Seen < 2 || r.Least < farSlowerSample*usual || r.Starved == 0 {
			continue
		}
		if worst == nil {
			worst = r
		}
		n++
		lost += int64(r.Seen) * min(r.Starved, r.Took)
	}
	if worst == nil {
		return f, false
	}
	f = Finding{
		Remedy: "make these samples smaller, or store them decoded; the worst are listed under blame",
		Evidence: fmt.Sprintf("%s each time far slower than others: %s takes %s in %s, where the slowest of a batch usually takes %s",
			units.Counted(n, "sample is", "samples are"), units.Line(worst.What()), units.Prose.Time(worst.Took), worst.Kind, units.Prose.Time(usual)),
		Share: min(1, float64(lost)/float64(max(1, s.snap.Total.Active()))),
	}
	return f, s.flags&trace.FlagCeiling == 0 && f.Share >= 0.01
}
