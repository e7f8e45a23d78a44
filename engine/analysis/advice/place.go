package advice

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/fleet"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/units"
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

// Code names a line with its text, as tables do.
func Code(l trace.Line) string { return (&lines.Cost{Line: l}).String() }

// Standstill says for which ranks the others wait, by where ranks stand that end no step; empty where none of them stands. Where
// all wait for others, or none does, it says where each is: those that are elsewhere than most come first. node is the machine
// that needs no name.
func Standstill(peers []trace.Peer, node string) string {
	var late, wait []trace.Peer
	for _, p := range peers {
		switch {
		case p.Stands == "":
		case p.Late:
			late = append(late, p)
		default:
			wait = append(wait, p)
		}
	}
	if len(late) > 0 && len(wait) > 0 {
		return "others wait for " + strings.Join(places(late, node, ", which "), "; ")
	}
	return strings.Join(places(append(late, wait...), node, " "), "; ")
}

// mostPlaces is how many places are named.
const mostPlaces = 3

// places names ranks with where they stand, those where fewest are first.
func places(all []trace.Peer, node, which string) (texts []string) {
	type place struct{ node, stands string }
	ranks := map[place][]int{}
	var order []place
	for _, p := range all {
		at := place{p.Node, p.Stands}
		if at.node == node {
			at.node = ""
		}
		if ranks[at] == nil {
			order = append(order, at)
		}
		ranks[at] = append(ranks[at], p.Rank)
	}
	slices.SortStableFunc(order, func(a, b place) int { return len(ranks[a]) - len(ranks[b]) })
	for _, at := range order[:min(len(order), mostPlaces)] {
		text, is := Names(ranks[at]), "is "
		if len(ranks[at]) > 1 {
			is = "are "
		}
		if at.node != "" {
			text += " on " + units.Line(at.node)
		}
		texts = append(texts, text+which+is+units.Line(at.stands))
	}
	return texts
}

// Names names ranks: "ranks 0, 2-4".
func Names(ranks []int) string {
	slices.Sort(ranks)
	if len(ranks) == 1 {
		return fmt.Sprint("rank ", ranks[0])
	}
	return "ranks " + units.Ranges(ranks, ", ")
}
