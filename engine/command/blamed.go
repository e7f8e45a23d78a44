package command

import (
	"dev.gpustall/engine/figures"
	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// blamed is a row of stall.Blame as JSON.
type blamed struct {
	Step     int32  `json:"step"`
	Batch    int32  `json:"batch"`
	Epoch    int32  `json:"epoch"` // from 0
	Worker   string `json:"worker,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Took     number `json:"took_s"`
	Split    *split `json:"split,omitempty"` // of that, where it was measured
	Rank     number `json:"rank"`            // the share of the batches that took less
	Starved  number `json:"starved_s"`       // the device, meanwhile
	Sample   *int32 `json:"sample,omitempty"`
	File     string `json:"file,omitempty"`
	Seen     int32  `json:"seen,omitempty"`
	Injected bool   `json:"injected,omitempty"`
	Text     string `json:"text"`
}

func blamedRows(rows []stall.Blamed) []blamed {
	var out []blamed
	for i := range rows {
		r := &rows[i]
		b := blamed{
			Step: r.Step, Batch: r.Batch, Epoch: r.Epoch, Took: seconds(r.Took), Rank: number(r.Rank), Starved: seconds(r.Starved),
			File: figures.Line(r.File), Seen: r.Seen, Injected: r.Injected, Text: r.String(),
		}
		if r.Worker.IsWorker() {
			b.Worker = r.Worker.String()
		}
		if r.Kind != trace.KindNone {
			b.Phase = r.Kind.String()
		}
		if s := r.Split; s.Total() > 0 {
			b.Split = &split{seconds(s.Core), seconds(s.Waiting), seconds(s.Blocked), s.Bound().Info().Name}
		}
		if r.Sample >= 0 {
			b.Sample = &r.Sample
		}
		out = append(out, b)
	}
	return out
}
