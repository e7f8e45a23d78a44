package summary

import (
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
)

// rankSummary is one process of a distributed training.
type rankSummary struct {
	Rank    int           `json:"rank"`
	Steps   int64         `json:"steps"`
	Data    number        `json:"data_share"` // the part of its time that it waits for data
	Step    number        `json:"step_s"`
	Slowest bool          `json:"slowest"`
	Why     string        `json:"why,omitempty"` // why it is the slowest
	Script  []partSummary `json:"step_parts,omitempty"`
}

// partSummary is a part of a step, such as the backward pass.
type partSummary struct {
	Part  string `json:"part"`
	Time  number `json:"time_s"` // of a step
	Share number `json:"share"`
}

// ranks are the processes of a PyTorch training on this machine.
type ranks struct {
	Ranks  []rankSummary `json:"ranks,omitempty"`      // if there are several
	Script []partSummary `json:"step_parts,omitempty"` // of the first one's step, on the host
}

func ranksOf(s *trace.Snapshot) (out ranks) {
	all := s.Ranks(0, s.Now)
	if len(all) == 0 {
		return out
	}
	own, _ := s.Own(0, s.Now)
	out.Script = partTable(&own, s.Rest())
	if len(all) == 1 {
		return out
	}
	slowest, why := attribution.SlowestRank(all)
	for i := range all {
		k := &all[i]
		row := rankSummary{Rank: k.Rank, Steps: k.Steps, Data: number(k.Data()), Step: seconds(k.Step()), Script: partTable(k, s.Rest())}
		if i == slowest {
			row.Slowest, row.Why = true, why
		}
		out.Ranks = append(out.Ranks, row)
	}
	return out
}

func partTable(k *trace.Rank, rest string) (rows []partSummary) {
	for _, p := range k.Parts(rest) {
		rows = append(rows, partSummary{p.Name, seconds(p.Step), number(p.Share)})
	}
	return rows
}
