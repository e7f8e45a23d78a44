package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/fleet"
	"dev.gpustall/engine/analysis/lines"
	"dev.gpustall/engine/base/knob"
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

// Standstill says for which ranks the others wait, by where ranks stand that end no step, and which have ended; empty where none of
// them stands. Where all wait for others, or none does, it says where each is: those that are elsewhere than most come first.
func Standstill(s *trace.Snapshot) string {
	node, now := knob.ValueOf(s.Meta.Host, trace.JobNode), s.Meta.Started.Add(time.Duration(s.Now))
	var late, wait []trace.Peer
	for _, p := range s.Peers {
		switch {
		case p.Stands == "" && p.Gone == 0:
		case p.Late:
			late = append(late, p)
		default:
			wait = append(wait, p)
		}
	}
	if len(late) > 0 && len(wait) > 0 {
		return "others wait for " + strings.Join(places(late, node, ", which ", now), "; ")
	}
	return strings.Join(places(append(late, wait...), node, " ", now), "; ")
}

// haltLate and HaltGone are how long no step has ended until it is said for which ranks the others wait, and until it is said that a
// rank has ended or is not heard of. Of one that failed that is said at once.
const (
	haltLate = 10 * time.Second
	HaltGone = 5 * time.Second
)

// Halted says why a distributed training that runs ends no step, or that a rank of it failed; empty where neither is so.
func Halted(s *trace.Snapshot) string {
	failed, gone := false, false
	for i := range s.Peers {
		p := &s.Peers[i]
		failed, gone = failed || p.Failed(), gone || p.Gone != 0
	}
	if s.Outcome.Ended != 0 {
		if s.Outcome.Status != "failed" {
			return ""
		}
		world, _ := strconv.Atoi(knob.ValueOf(s.Meta.Host, trace.JobRanks))
		return FirstGone(s.Peers, world)
	}
	silence := s.Silence()
	text := Standstill(s)
	switch {
	case text == "" || silence < haltLate && !failed && !(gone && silence >= HaltGone):
		return ""
	case silence < HaltGone:
		return text
	}
	return fmt.Sprintf("no step for %d s: %s", int(silence.Seconds()), text)
}

// FirstGone says which rank ended first, of a training of which one failed; empty where none did. world is how many ranks there are.
func FirstGone(peers []trace.Peer, world int) string {
	var gone []trace.Peer
	for _, p := range peers {
		if p.Gone != 0 && !p.Silent {
			gone = append(gone, p)
		}
	}
	slices.SortStableFunc(gone, func(a, b trace.Peer) int { return cmp.Compare(a.Gone, b.Gone) })
	failed := slices.IndexFunc(gone, func(p trace.Peer) bool { return p.Failed() })
	if failed < 0 {
		return ""
	}
	order := " first,"
	switch {
	case len(gone) == 1 && world > 1:
		order = ""
	case len(gone) < world:
		order = fmt.Sprintf(" first of %d whose end is known,", len(gone))
	}
	text := RankOn(gone[0].Rank, gone[0].Node) + " ended" + order + " " + units.Line(cmp.Or(gone[0].How, "it is not known how"))
	if failed > 0 {
		text += ", then " + RankOn(gone[failed].Rank, gone[failed].Node) + " " + units.Line(gone[failed].How)
	}
	return text
}

// RankOn names a rank, and its machine unless node is empty.
func RankOn(rank int, node string) string {
	text := fmt.Sprintf("rank %d", rank)
	if node != "" {
		text += " on " + units.Line(node)
	}
	return text
}

// mostPlaces is how many places are named.
const mostPlaces = 3

// places names ranks with where they stand, those where fewest are first.
func places(all []trace.Peer, node, which string, now time.Time) (texts []string) {
	type place struct {
		node, does string
		gone       bool
	}
	ranks := map[place][]int{}
	var order []place
	for _, p := range all {
		at := place{p.Node, p.Stands, p.Gone != 0}
		if at.node == node {
			at.node = ""
		}
		if at.gone {
			verb := "ended"
			if p.Silent {
				verb = "went silent"
			}
			at.does = fmt.Sprintf("%s %d s ago", verb, max(0, (now.UnixNano()-p.Gone)/1e9))
			if p.How != "" {
				at.does += " " + p.How
			}
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
		if at.gone {
			is = ""
		}
		if at.node != "" {
			text += " on " + units.Line(at.node)
		}
		texts = append(texts, text+which+is+units.Line(at.does))
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
