package summary

import (
	"fmt"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// told is a finding as JSON.
type told struct {
	Rule     string `json:"rule"`
	Evidence string `json:"evidence"`
	Cause    string `json:"cause,omitempty"`
	Remedy   string `json:"remedy"`
	Knob     string `json:"knob,omitempty"`
	From     string `json:"from,omitempty"`
	Value    string `json:"value,omitempty"`
	Share    number `json:"share"`          // the part of the active time that it is about
	Gain     string `json:"gain,omitempty"` // at the most
}

func toldOf(a *advice.Advice) (findings []told) {
	for i := range a.Findings {
		f := &a.Findings[i]
		findings = append(findings, told{f.Rule, f.Evidence, f.Cause, f.Remedy, f.Knob, f.From, f.Value, number(f.Share), f.Gain()})
	}
	return findings
}

// remarks returns the asides of the advice as JSON.
func remarks(a *advice.Advice) (texts []string) {
	for i := range a.Asides {
		texts = append(texts, fmt.Sprintf("%s: %s", a.Asides[i].Rule, a.Asides[i].Evidence))
	}
	return texts
}

// diagnosed is the part of the summary that says what slows the run down.
type diagnosed struct {
	Findings     []told      `json:"findings,omitempty"`
	Remarks      []string    `json:"remarks,omitempty"` // that call for no action
	MFU          *modelFLOPs `json:"mfu,omitempty"`     // of the last segment
	Cost         *idleCost   `json:"idle_cost,omitempty"`
	WorstBatches []blamed    `json:"worst_batches,omitempty"` // those that starved the device longest
	WorstSamples []blamed    `json:"worst_samples,omitempty"` // those that took a worker longest
}

func diagnosedOf(s *trace.Snapshot, a *advice.Advice) diagnosed {
	d := diagnosed{Findings: toldOf(a), Remarks: remarks(a)}
	if c, ok := advice.CostOf(s, &attribution.Breakdown{Totals: s.Total}); ok {
		d.Cost = &idleCost{number(c.Rate), number(c.Idle), number(c.Data)}
	}
	if n := len(s.Segments); n > 0 {
		if m, ok := attribution.MFUOf(s, &s.Segments[n-1]); ok {
			d.MFU = &modelFLOPs{number(m.Share), m.Type, number(m.Sample), number(m.Peak), m.From}
		}
	}
	worst := attribution.Blames(s)
	d.WorstBatches, d.WorstSamples = blamedRows(worst.Batches), blamedRows(worst.Samples)
	return d
}

// modelFLOPs is an attribution.MFU as JSON.
type modelFLOPs struct {
	Share  number `json:"share"`
	Type   string `json:"type"`
	Sample number `json:"flops_per_sample"`
	Peak   number `json:"peak_flops"`
	From   string `json:"peak_from"`
}

// idleCost is what the device costs while it is idle, over the whole run.
type idleCost struct {
	Rate number `json:"gpu_rate_usd_per_h"`
	Idle number `json:"idle_usd_per_h"`
	Data number `json:"waiting_for_data_usd_per_h"`
}

// blamed is an attribution.Blamed as JSON.
type blamed struct {
	Step     int32  `json:"step"`
	Batch    int32  `json:"batch"`
	Epoch    int32  `json:"epoch"` // from 0
	Worker   string `json:"worker,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Took     number `json:"took_s"`
	Split    *split `json:"split,omitempty"` // of took_s, where it was measured
	Rank     number `json:"quantile"`        // the part of all batches or samples that took less
	Starved  number `json:"starved_s"`       // that the device starved meanwhile
	Sample   *int32 `json:"sample,omitempty"`
	File     string `json:"file,omitempty"`
	Seen     int32  `json:"seen,omitempty"`
	Injected bool   `json:"injected,omitempty"`
	Text     string `json:"text"`
}

func blamedRows(rows []attribution.Blamed) []blamed {
	var out []blamed
	for i := range rows {
		r := &rows[i]
		b := blamed{
			Step: r.Step, Batch: r.Batch, Epoch: r.Epoch, Took: seconds(r.Took), Rank: number(r.Rank), Starved: seconds(r.Starved),
			File: units.Line(r.File), Seen: r.Seen, Injected: r.Injected, Text: r.String(),
		}
		if r.Worker.IsWorker() {
			b.Worker = r.Worker.String()
		}
		if r.Kind != trace.KindNone {
			b.Phase = r.Kind.String()
		}
		if s := r.Split; s.Total() > 0 {
			of := splitOf(s)
			b.Split = &of
		}
		if r.Sample >= 0 {
			b.Sample = &r.Sample
		}
		out = append(out, b)
	}
	return out
}
