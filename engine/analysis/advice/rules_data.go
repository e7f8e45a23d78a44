package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// dataRules are about the data itself: where it lies, and samples and workers that are far slower
// than others. They give the reason where no knob is left.
var dataRules = []Rule{
	{Name: "thrashing", Group: trace.GroupData, Last: true, Check: thrashing},
	{Name: "small files", Group: trace.GroupData, Last: true, Check: smallFiles},
	{Name: "slow worker", Group: trace.GroupData, Last: true, Check: slowWorker},
	{Name: "slow samples", Data: true, Check: slowSamples},
}

// leastStorage is how many bytes an epoch must read from storage before the page cache is
// mentioned: less may be the program's own files.
const leastStorage = 16 << 20

// thrashing is for data that each epoch reads from storage again, because the page cache does not
// keep it.
func thrashing(s *situation) (f Finding, ok bool) {
	first, last, ok := s.session.epochs()
	if !ok {
		return f, false
	}
	once, _ := s.session.fromStorage(first.from, first.to)
	again, known := s.session.fromStorage(last.from, last.to)
	f = Finding{
		Remedy: "loader settings won't help: give the page cache more memory, make the data smaller, or put it on faster storage",
		Evidence: fmt.Sprintf("an epoch still reads ~%s from storage where the first read ~%s: the page cache does not keep the data from one epoch to the next",
			units.Prose.Bytes(int64(again)), units.Prose.Bytes(int64(once))),
		Share: s.levers.loads(),
	}
	return f, known && once >= leastStorage && 2*again >= once && s.loader.Reading()
}

// smallFile is the size in bytes below which a disk takes longer to find a file than to read it. A
// disk of 500 MB/s reads 128 KiB in a quarter of a millisecond.
const smallFile = 128 << 10

// smallFiles is for a data set that has a small file for each sample, read from storage.
func smallFiles(s *situation) (f Finding, ok bool) {
	bytes, known := s.session.fromStorage(s.session.from, s.session.to)
	each := bytes / float64(max(1, s.time.Samples))
	f = Finding{
		Remedy: "loader settings won't help: pack the samples into large files (gpustall data pack), or put them on storage that finds files faster",
		Evidence: fmt.Sprintf("each sample is a file of its own, and ~%s of it come from storage, %s in all: finding the files takes the time, not their bytes",
			units.Prose.Bytes(int64(each)), units.Prose.Transfer(bytes/float64(max(1, s.session.to-s.session.from))*1e9)),
		Share: s.levers.loads(),
	}
	return f, known && slices.Contains([]string{"imagefolder", "npy-folder"}, s.session.Meta.Format) && bytes >= leastStorage && each >= 1<<10 && each < smallFile && s.loader.Reading()
}

// A worker or a sample is far slower than the others when it takes so many times their median.
const (
	farSlowerWorker = 1.5
	farSlowerSample = 10
)

// slowWorker is for one worker that takes far longer for a batch than the others.
func slowWorker(s *situation) (f Finding, ok bool) {
	worker, its, others := s.loader.slowestWorker()
	f = Finding{
		Remedy: "loader settings won't help: find out what that worker has on its core, or in its part of the data",
		Evidence: fmt.Sprintf("%s takes %s for a batch, the others %s", worker,
			units.Prose.Time(int64(its)), units.Prose.Time(int64(others))),
		Share: s.levers.loads(),
	}
	return f, others > 0 && its >= farSlowerWorker*others
}

// slowSamples is for samples that are far slower than others each time that they are loaded. So
// they are the reason, and not the host. Waits for a core do not count.
func slowSamples(s *situation) (f Finding, ok bool) {
	w := s.session.Worst
	const few = 50 // batches that tell what is usual
	if w == nil || w.Pieces.N() < few {
		return f, false
	}
	usual := trace.Quantile(0.5, &w.Pieces)
	b := attribution.Blames(s.session.Snapshot)
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
		Share: min(1, float64(lost)/float64(max(1, s.session.Total.Active()))),
	}
	return f, !s.time.ceiling() && f.Share >= 0.01
}
