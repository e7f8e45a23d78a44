package report

import (
	"strconv"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// parts is the section about where the script's own time in a step goes.
type parts struct {
	own  trace.Rank
	more bool   // there are other ranks
	cuda bool   // the device is a GPU
	rest string // Snapshot.Rest
}

func newParts(s *trace.Snapshot) parts {
	own, _ := s.Own(0, s.Now)
	return parts{own, len(s.Ranks(0, s.Now)) > 1, s.Meta.DeviceKind == "cuda", s.Rest()}
}

func (p parts) write(d *markup.Document) {
	all := p.own.Parts(p.rest)
	if len(all) == 0 {
		return
	}
	d.Heading(2, "The script's step")
	rows := [][]string{{"part", ">a step", ">of it"}}
	for _, part := range all {
		rows = append(rows, []string{part.Name, units.Prose.Time(part.Step), units.Prose.Percent(part.Share)})
	}
	d.Table(rows)
	of := ""
	if p.more {
		of = " of rank " + strconv.Itoa(p.own.Rank)
	}
	text := []string{
		"The time of the training loop" + of + " on the host, over all steps but the first.",
		"The first part lasts from asking for a batch to having it, whatever the loop waits for, a core for instance.",
		"The share of the time in which the device is idle for data is another number.",
		"A step of an optimizer that is given a closure counts from the last backward pass in it.",
	}
	if p.cuda {
		text = append(text, "What the loop enqueues on the GPU runs later: these are no times of the GPU.")
	}
	d.Sentences(text...)
}

// ranks is the section that lists the processes of a distributed training.
type ranks []trace.Rank

func newRanks(s *trace.Snapshot) ranks { return s.Ranks(0, s.Now) }

func (all ranks) write(d *markup.Document) {
	if len(all) < 2 {
		return
	}
	d.Heading(2, "Ranks")
	rows := [][]string{{">rank", ">waits for data", ">a step", ">steps", "note"}}
	slowest, why := attribution.SlowestRank(all)
	for i := range all {
		k := &all[i]
		note := ""
		if i == slowest {
			note = "slowest"
		}
		rows = append(rows, []string{strconv.Itoa(k.Rank), units.Prose.Percent(k.Data()), units.Prose.Time(k.Step()), units.Count(k.Steps), note})
	}
	d.Table(rows)
	if slowest >= 0 {
		d.Para("Rank %d is the slowest: %s.", all[slowest].Rank, why)
	}
	d.Sentences(
		"Of the processes of this machine, each from its first batch to its last, validation and the time between epochs included.",
		"All else in this report is about the first of them.")
}
