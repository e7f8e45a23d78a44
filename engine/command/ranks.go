package command

import (
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
)

// rankSummary is how one process of a distributed training did.
type rankSummary struct {
	Rank    int           `json:"rank"`
	Steps   int64         `json:"steps"`
	Data    number        `json:"data_share"` // of its time: waiting for data
	Step    number        `json:"step_s"`
	Slowest bool          `json:"slowest"`
	Why     string        `json:"why,omitempty"` // it is the slowest
	Script  []partSummary `json:"step_parts,omitempty"`
}

// partSummary is what a step is in part.
type partSummary struct {
	Part  string `json:"part"`
	Time  number `json:"time_s"` // of a step
	Share number `json:"share"`
}

// rankTable is the ranks of a training that has several, and the parts of the first one's
// step.
func rankTable(s *trace.Snapshot) (rows []rankSummary, script []partSummary) {
	ranks := s.Ranks(0, s.Now)
	if len(ranks) == 0 {
		return nil, nil
	}
	script = partTable(&ranks[0])
	if len(ranks) == 1 {
		return nil, script
	}
	slowest, why := attribution.SlowestRank(ranks)
	for i := range ranks {
		k := &ranks[i]
		row := rankSummary{Rank: k.Rank, Steps: k.Steps, Data: number(k.Data()), Step: seconds(k.Step()), Script: partTable(k)}
		if i == slowest {
			row.Slowest, row.Why = true, why
		}
		rows = append(rows, row)
	}
	return rows, script
}

func partTable(k *trace.Rank) (rows []partSummary) {
	for _, p := range k.Parts() {
		rows = append(rows, partSummary{p.Name, seconds(p.Step), number(p.Share)})
	}
	return rows
}
