//go:build linux

package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/figures"
)

// totals are what is kept of each process's loop, whoever the session is about.
type totals struct {
	steps       int64
	samples     int64
	wait, busy  int64 // ns: for data, and with a batch in hand
	first, last int64 // ns: the first batch was asked for, the last came
}

func (t *totals) next(rec *record) {
	if t.steps == 0 {
		t.first = rec.Start
	} else { // the first wait is for the workers to start
		t.wait += rec.End - rec.Start
	}
	t.steps++
	t.samples += int64(rec.Arg)
	t.last = rec.End
}

// Rank is how the loop of one process of a distributed training does.
type Rank struct {
	Rank  int
	PID   int
	Steps int64
	Data  float64 // share of its time that it waited for data, 0 to 1
	Step  int64   // ns a step, on average
}

// Ranks are those of a distributed training, in order; none where it is not.
func (b *Bridge) Ranks() (out []Rank) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ranks)
}

// count brings the ranks up to date.
func (b *Bridge) count() {
	var out []Rank
	for _, p := range b.processes {
		t := &p.totals
		if !p.known || p.hello.World < 2 || t.steps < 2 {
			continue
		}
		all := max(1, t.last-t.first)
		out = append(out, Rank{p.hello.Rank, p.pid, t.steps, float64(t.wait) / float64(all), all / (t.steps - 1)})
	}
	slices.SortFunc(out, func(a, b Rank) int { return a.Rank - b.Rank })
	b.mu.Lock()
	b.ranks = out
	b.mu.Unlock()
}

// Slowest says which rank the others wait for; empty where there are no ranks.
func Slowest(ranks []Rank) string {
	if len(ranks) < 2 {
		return ""
	}
	slow := slices.MaxFunc(ranks, func(a, b Rank) int { return cmp.Compare(a.Data, b.Data) })
	var each []string
	for _, r := range ranks {
		each = append(each, fmt.Sprintf("rank %d waits for data %s of the time, %s a step", r.Rank, figures.Prose.Percent(r.Data), figures.Prose.Time(r.Step)))
	}
	return fmt.Sprintf("%s; rank %d waits longest, and the others wait for it", strings.Join(each, ", "), slow.Rank)
}
