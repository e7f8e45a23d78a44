package attribution

import (
	"cmp"
	"fmt"
	"slices"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Ranks differ when their step times, or their shares of time in waits for data, differ by more
// than these, and by more than trace.LeastLate in all.
const (
	unevenSteps = 1.10
	unevenData  = 0.05
)

// SlowestRank returns the index of the rank that holds up the others, and why it does. The index
// is -1 where no rank stands out. The first test finds the rank with the longest steps.
//
// Ranks that exchange gradients all take the same time for a step, whichever of them is late. The
// second test finds the rank that spends most time outside of exchanges, with its waits for data. Where
// that is not known, the third finds the rank that waits longest for data.
func SlowestRank(ranks []trace.Rank) (at int, why string) {
	if len(ranks) < 2 {
		return -1, ""
	}
	order := make([]int, len(ranks))
	for i := range order {
		order[i] = i
	}
	// others writes the smallest and the largest value of all ranks but the last.
	others := func(text func(k *trace.Rank) string) string {
		least, most := text(&ranks[order[0]]), text(&ranks[order[len(order)-2]])
		if least == most {
			return least
		}
		return least + " to " + most
	}
	step := func(k *trace.Rank) string { return units.Prose.Time(k.Step()) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ranks[a].Step(), ranks[b].Step()) })
	slow, next := &ranks[order[len(order)-1]], &ranks[order[len(order)-2]]
	if its := slow.Step() - slow.Talks/max(1, slow.Steps); float64(its) > unevenSteps*float64(next.Step()) && slow.Steps*(its-next.Step()) > trace.LeastLate {
		return order[len(order)-1], fmt.Sprintf("a step takes it %s, and the others %s", step(slow), others(step))
	}
	byData := func(a, b int) int { return cmp.Compare(ranks[a].Data(), ranks[b].Data()) }
	data := func(k *trace.Rank) string {
		return fmt.Sprintf("it waits for data %s of the time, and the others %s; they wait for it where they exchange gradients",
			units.Prose.Percent(k.Data()), others(func(k *trace.Rank) string { return units.Prose.Percent(k.Data()) }))
	}
	wait := func(k *trace.Rank) int64 { return k.Wait / max(1, k.Steps) }
	own := func(k *trace.Rank) int64 { return (k.Wait + k.Body - k.Exchange()) / max(1, k.Steps) }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(own(&ranks[a]), own(&ranks[b])) })
	slow, next = &ranks[order[len(order)-1]], &ranks[order[len(order)-2]]
	if more := own(slow) - own(next); next.Backward+next.Talks > 0 && slow.Backward+slow.Talks > 0 &&
		float64(more) > (unevenSteps-1)*float64(slow.Step()) && slow.Steps*more > trace.LeastLate {
		what := "backward passes"
		if slow.Talks > 0 {
			what += " and exchanges"
		}
		at, why = order[len(order)-1], fmt.Sprintf("it takes %s of a step outside of %s, and the others %s; they wait for it where they exchange gradients",
			units.Prose.Time(own(slow)), what, others(func(k *trace.Rank) string { return units.Prose.Time(own(k)) }))
		slices.SortFunc(order, byData)
		if next = &ranks[order[len(order)-2]]; order[len(order)-1] == at && 2*(wait(slow)-wait(next)) >= more {
			why = data(slow)
		}
		return at, why
	}
	slices.SortFunc(order, byData)
	slow, next = &ranks[order[len(order)-1]], &ranks[order[len(order)-2]]
	if more := slow.Data() - next.Data(); more > unevenData && more*float64(slow.Time) > trace.LeastLate {
		return order[len(order)-1], data(slow)
	}
	return -1, ""
}
