package advice

import (
	"dev.gpustall/engine/analysis/fleet"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/trace"
)

// Place says where a run spends its time, in as few words as a table has room for.
type Place struct {
	Waits   string // for which data, where it waits for data: "transforming"
	Loading string // the line of code that takes most of loading; empty where that is not known
	Script  string // the line of code that takes most of the step loop
}

// At returns the place for steps of one segment.
func At(s *trace.Snapshot, t *trace.Tally) (p Place) {
	if v := Judge(s, t); v.Group == trace.GroupData {
		p.Waits = v.Dominant.Info().For
	}
	costs := lines.Of(s, t.Segment, 1)
	if c, ok := lines.Most(costs, trace.Loading); ok {
		p.Loading = c.String()
	}
	if c, ok := lines.Most(costs, trace.InStep); ok {
		p.Script = c.String()
	}
	return p
}

// Late says at which line a rank is that the others wait for, by what looks found of it. It returns false where they do not wait
// for that rank, or the looks are too few.
func Late(ranks []trace.Rank, rank int, found []trace.Line) (p Place, ok bool) {
	j := fleet.OfRanks(ranks)
	late := j.Holder()
	if late == nil || late.Rank.Rank != rank {
		return p, false
	}
	costs := lines.Of(&trace.Snapshot{Lines: found}, 0, 1)
	if !j.Loads(late) {
		c, ok := lines.Most(costs, trace.InStep)
		p.Script = c.String()
		return p, ok
	}
	c, ok := lines.Most(costs, trace.Loading)
	p.Waits, p.Loading = someData, c.String()
	return p, ok
}

// someData is what a rank waits for of which no more is known.
const someData = "data"

// Told is the place of a rank as its gpustall tells it.
func Told(p *trace.Peer) Place {
	switch p.Waits {
	case "":
		return Place{Script: p.Line}
	case someData:
		return Place{Loading: p.Line}
	}
	return Place{Waits: p.Waits, Loading: p.Line}
}
