package advice

import (
	"fmt"
	"math"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// asides look for what a reader should know although nothing can be done about it. Examples are how
// the run began, what the page cache did and a GPU at its power limit.
var asides = []Rule{
	{Name: "earlier runs", Check: earlierRuns},
	{Name: "first epochs", Check: firstEpochs},
	{Name: "cold cache", Check: coldCache},
	{Name: "trace without steps", Check: noSteps},
	{Name: "trace of the host", Check: noDevice},
	{Name: "trace that lacks work", Check: lacking},
	{Name: "first step", Check: firstStep},
	{Name: "power limit", Check: powerLimit},
	{Name: "kept batches", Check: keptBatches},
	{Name: "other machines", Check: otherMachines},
	{Name: "samples repeated before", Check: repeatedBefore},
}

// told returns the asides of a situation, which have evidence and no remedy.
func (s *situation) told() (out []Finding) {
	for i := range asides {
		if f, ok := asides[i].Check(s); ok {
			f.Rule = asides[i].Name
			out = append(out, f)
		}
	}
	return out
}

// earlierRuns is for a run that is faster or slower than all earlier runs of the same training.
func earlierRuns(s *situation) (f Finding, ok bool) {
	p, known := PastOf(s.session.Snapshot)
	rate := s.time.SamplesPerSecond()
	if !known || rate <= 0 || s.time.flags&(trace.FlagCeiling|trace.FlagInjected) != 0 || !s.asStarted("batch_size", "precision", "gradient_accumulation", "checkpointing") {
		return f, false
	}
	others := math.NaN()
	if percent, known := s.session.gauge(trace.GaugeCPUOthers); known {
		others = percent / 100
	}
	text, different := p.Against(rate, others)
	return Finding{Evidence: text}, different
}

// coldCache is for a first epoch that read its data from storage, while later epochs have it from
// the page cache and so run differently. If the epoch hardly waits for data, the bytes from
// storage may be the program itself.
func coldCache(s *situation) (f Finding, ok bool) {
	if s.time.settling != nil { // firstEpochs says it
		return f, false
	}
	first, last, ok := s.session.epochs()
	if !ok {
		first = passage{from: s.session.First.Start, to: s.session.Last.End}
		bytes, known := s.session.fromStorage(first.from, first.to)
		return Finding{Evidence: fmt.Sprintf("this is the first epoch, and ~%s of it came from storage: later ones may have the data from the page cache and be faster",
			units.Prose.Bytes(int64(bytes)))}, known && bytes >= leastStorage && len(s.session.Epochs) == 1 && s.time.DataShare() >= moderate
	}
	once, _ := s.session.fromStorage(first.from, first.to)
	again, known := s.session.fromStorage(last.from, last.to)
	f = Finding{Evidence: fmt.Sprintf("the first epoch read ~%s from storage, and the newest ~%s: it is not how the rest runs (%s a sample where the newest took %s)",
		units.Prose.Bytes(int64(once)), units.Prose.Bytes(int64(again)), units.Prose.Time(int64(first.perSample())), units.Prose.Time(int64(last.perSample())))}
	return f, known && once >= leastStorage && 10*again <= once && first.perSample() >= last.perSample() && first.dataShare() >= moderate
}

// firstStep is for a first step that took far longer than the others. It loads and tunes kernels
// and compiles graphs, or its batch took that long.
func firstStep(s *situation) (f Finding, ok bool) {
	first, usual := s.session.First.Active(), trace.Quantile(0.5, s.time.plain)
	why := "start-up and compilation"
	if waited := s.session.First.Starved() + s.session.First.Stall[trace.CauseStartup]; 2*waited > first {
		why = units.Prose.Time(waited) + " of it until the first batch was there"
	} else if took, _ := s.compiled(); 3*took > first {
		why = "torch.compile has ~" + units.Prose.Time(min(took, first)) + " of it"
	}
	f = Finding{Evidence: fmt.Sprintf("the first step took %s, where %s are usual: %s; the rates of the settings leave it out",
		units.Prose.Time(first), units.Prose.Time(usual), why)}
	return f, usual > 0 && first >= 10*usual && first >= 100e6 && s.session.Total.Steps > 1
}

// keptBatches is for a loop that took batches from a DataLoader earlier and takes none from it now.
func keptBatches(s *situation) (f Finding, ok bool) {
	return Finding{Evidence: "the loop took batches from a DataLoader before, and takes none from it now: those that a script keeps (in a list, by itertools.cycle) stay in memory, and have the same order and the same random transforms in every epoch"}, s.script.left
}

// powerLimit is for a GPU whose power limit holds its clock down, as is usual for a GPU that is
// used well.
func powerLimit(s *situation) (f Finding, ok bool) {
	share, known := s.session.gauge(trace.GaugePowerCapped)
	watts, _ := s.session.gauge("nvml_power")
	f = Finding{Evidence: fmt.Sprintf("the GPU is at its power limit in %s of the samples (%s W%s), which lowers its clock", units.Prose.Percent(share/100), units.Rate(watts), s.session.warmth())}
	return f, known && share/100 >= 0.5
}
