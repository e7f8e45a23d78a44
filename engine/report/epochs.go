package report

import (
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
)

// epochs is the appendix that lists the load, train and total time of each epoch, and
// what was learnt in it.
type epochs struct{ *account }

func (p *epochs) write(d *markup.Document) {
	d.Heading(2, "Appendix D: epochs")
	if p.s.Meta.Imported != "" {
		d.Para("Epochs are not in a trace.")
		return
	}
	if len(p.epochs) == 0 {
		d.Para("No epoch was begun.")
		return
	}
	tested := len(p.s.Evaluations()) > 0
	d.Table(p.times())
	learnt := tested || p.s.Learning > 0 || slices.ContainsFunc(p.epochs, func(e attribution.EpochStats) bool { return lossOf(&e) != "-" || advice.OfEpoch(&e) != "" })
	if learnt {
		d.Table(p.learnt(tested))
	}
	said := []string{
		"Load is the time that all workers together spent on the epoch's batches; they work while the device does, so it may exceed the total.",
		"Wait is how long the step loop was blocked for a batch.",
		"Train is how long the device computed.",
		"Total is wall time without pauses.",
	}
	if learnt {
		said = append(said, "Loss and top-1 (the share of samples whose likeliest class was right) are means over the training samples.")
	}
	d.Sentences(said...)
	if tested {
		d.Sentences(
			"Test loss and top-1 are of the test split after the epoch, with the running statistics of the batch norms.",
			"Evaluate is what that took: it counts as a pause, so it is in no total and in no share.")
	}
	for i := range p.epochs {
		if e := &p.epochs[i]; !e.Complete && e.Projected > 0 {
			d.Para("A full epoch with a ~ was not run in full: its time is that of the samples that were, scaled to all %s.", units.Count(p.s.EpochSamples()))
			break
		}
	}
}

// times returns the table of where each epoch's time went.
func (p *epochs) times() [][]string {
	rows := [][]string{{">epoch", "segment", ">steps", ">samples", ">load", ">wait", ">train", ">total", ">full epoch", ">util."}}
	for i := range p.epochs {
		e := &p.epochs[i]
		segment := "several"
		for j := range p.rows {
			if p.rows[j].Segment.Index == e.Segment {
				segment = p.rows[j].Name()
			}
		}
		whole := units.Prose.Time(e.Total)
		switch {
		case !e.Complete && e.Projected > 0:
			whole = "~" + units.Prose.Time(e.Projected)
		case !e.Complete:
			whole = "-"
		}
		samples := notRecorded
		if e.Samples > 0 {
			samples = units.Count(e.Samples)
		}
		rows = append(rows, []string{itoa(int64(e.Epoch) + 1), segment, units.Count(e.Steps), samples,
			loadTime(&p.s.Meta, e.Load), units.Prose.Time(e.Wait), units.Prose.Time(e.Train), units.Prose.Time(e.Total),
			whole, units.Prose.Percent(e.Utilisation)})
	}
	return rows
}

// learnt returns the table of each epoch's loss and accuracy.
func (p *epochs) learnt(tested bool) [][]string {
	rows := [][]string{{">epoch", ">loss", ">top-1", "note"}}
	if tested {
		rows[0] = []string{">epoch", ">loss", ">top-1", ">test loss", ">test top-1", ">evaluate", "note"}
	}
	for i := range p.epochs {
		e := &p.epochs[i]
		row := []string{itoa(int64(e.Epoch) + 1), lossOf(e), "-"}
		if finite(e.Top1) {
			row[2] = units.Prose.Percent(e.Top1)
		}
		if v, ok := p.s.EvaluationOf(e.Epoch); ok {
			row = append(row, units.Loss(v.Loss), units.Prose.Percent(v.Top1), units.Prose.Time(v.Took))
		} else if tested {
			row = append(row, "-", "-", "-")
		}
		rows = append(rows, append(row, advice.OfEpoch(e)))
	}
	return rows
}

func lossOf(e *attribution.EpochStats) string {
	switch {
	case e.Diverged > 0:
		return "NaN"
	case finite(e.Loss):
		return units.Loss(e.Loss)
	}
	return "-"
}
