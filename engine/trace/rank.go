package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"dev.gpustall/engine/base/knob"
)

// Rank is what the loop of one process of a PyTorch training did over some time. A training that is
// not distributed has rank 0 alone.
type Rank struct {
	Rank  int
	Steps int64
	Wait  int64 // ns of Time in which it waited for data, and ...
	Other int64 // ... the part of Wait for other loaders than the first that a step takes from
	Time  int64 // ns, pauses between epochs and validation included

	Body      int64 // ns in which it had a batch in hand; 0 where that is not recorded
	Backward  int64 // ns of Body in backward passes, and ...
	Optimizer int64 // ... in optimizers' steps, on the host; 0 where PyTorch does not tell
	Core      int64 // ns of Body in which the loop's thread was on a core, and ...
	Waiting   int64 // ... in which it was ready to run and had none; both 0 where that is not measured

	Device   int64 // ns in which its GPU had one of its steps; 0 where there is none
	Followed int64 // ns of Device, of steps that the GPU ended about when the loop had enqueued them

	Exposed int64 // ns in which it exchanged data and nothing else went on; 0 where that is not known
	Talks   int64 // ns in which looks found it exchanging data outside of backward passes; 0 where nobody looked

	Aside     int64 // ns of loops that do not train, such as an evaluation, and ...
	AsideWait int64 // ... the part of Aside in which they waited for data
}

// Peer is what the gpustall of a rank tells of it beside its counts, for the sessions of other ranks.
type Peer struct {
	Rank  int    `json:"rank"`
	Node  string `json:"node,omitempty"`  // the machine that it runs on
	Waits string `json:"waits,omitempty"` // for which data, where it waits for data: "transforming"
	Line  string `json:"line,omitempty"`  // of its code that costs most: of loading where it waits for data, else of its script

	Stands string `json:"stands,omitempty"` // where it is, once it has ended no step for a while
	Late   bool   `json:"late,omitempty"`   // it does not wait for other ranks there

	Gone   int64  `json:"gone,omitempty"`   // when its process ended, in ns since 1970 by this machine's clock; 0 while it runs
	How    string `json:"how,omitempty"`    // ... "with exit code 1" or "by SIGKILL (killed)"; empty where that is not known
	Silent bool   `json:"silent,omitempty"` // its gpustall was last heard of at Gone; no more is known

	Session string `json:"session,omitempty"` // the file there of the session that is about it; empty where none is
}

// ExitCode is How a process ended that had a code.
func ExitCode(code int) string { return "with exit code " + strconv.Itoa(code) }

// Failed reports whether its process ended otherwise than with exit code 0, as far as that is known.
func (p *Peer) Failed() bool { return p.Gone != 0 && p.How != "" && p.How != ExitCode(0) }

// Peers records what is known of other ranks. The recorder owns the slice from then on.
func (r *Recorder) Peers(peers []Peer) {
	if peers == nil {
		peers = []Peer{} // nil is no news
	}
	r.mu.Lock()
	r.peers = peers
	r.mu.Unlock()
}

// Own returns what the loop did that the session is about; false where that is not recorded.
func (s *Snapshot) Own(from, to int64) (Rank, bool) {
	all := s.Ranks(from, to)
	about := knob.ValueOf(s.Meta.Host, JobRank)
	for _, k := range all {
		if strconv.Itoa(k.Rank) == about {
			return k, true
		}
	}
	if len(all) == 0 || about != "" {
		return Rank{}, false
	}
	return all[0], true
}

// AsideLoops says what took the time that Rank.Aside counts.
const AsideLoops = "loops that do not train, such as an evaluation,"

// Data returns the share of its time that it waited for data, 0 to 1.
func (k *Rank) Data() float64 { return float64(k.Wait) / float64(max(1, k.Time)) }

// Beside returns the share of its time, up to its last step, that went to loops that do not train, 0 to 1.
func (k *Rank) Beside() float64 {
	all := max(k.Time, k.Wait+k.Body)
	return float64(min(k.Aside, all-k.Wait-k.Body)) / float64(max(1, all))
}

// Step returns how long a step took on average, in ns.
func (k *Rank) Step() int64 { return k.Time / max(1, k.Steps) }

// Exchange returns the time in which it may have waited for other ranks, in ns: its backward passes and exchanges or,
// on a GPU, its steps there. Where neither is known, it is all that its loop did with a batch in hand.
func (k *Rank) Exchange() int64 {
	switch {
	case k.Exposed > 0 && k.Device > 0:
		return k.Exposed
	case k.Exposed > 0:
		return min(max(k.Body, k.Exposed), k.Exposed+k.Talks)
	case k.Device > 0:
		return k.Device
	case k.Backward+k.Talks > 0:
		return min(k.Body, k.Backward+k.Talks)
	}
	return k.Body
}

// Own returns the rest of its time, in ns: it waits for no other rank then, and others may wait
// for it.
func (k *Rank) Own() int64 {
	switch {
	case k.Exposed > 0:
		return max(0, k.Time-k.Exchange())
	case k.Device > 0:
		return max(0, k.Time-k.Device)
	}
	return k.Wait + k.Body - k.Exchange() + k.Aside
}

// LeastLate is what ranks must differ by in all, in ns, until that says which of them is late. Equal ranks of a run of a second or
// two were seen to differ by a third of a second.
const LeastLate = 500_000_000

// Part is one part of the step of a script.
type Part struct {
	Name  string
	Step  int64   // ns of a step, on average
	Share float64 // of all parts, 0 to 1
}

// Getting is the part of a step in which the loop has no batch. It is more than waiting for data:
// it includes waits for a core, and what the loop itself does to load or take a batch.
const Getting = "getting a batch"

// Outside is the part of its time that is in no step of the loop; Beside where the loop left its DataLoader, and Neither
// where nothing tells what the loop waits for (Meta.Alone).
const (
	Outside = "between epochs, and in loops that do not train"
	Beside  = "between epochs, and in loops without a DataLoader"
	Neither = "forward passes, data and the script's own code"
)

// Rest returns what the part of a step is called that is in no batch's time.
func (s *Snapshot) Rest() string {
	switch {
	case s.Meta.Alone():
		return Neither
	case slices.ContainsFunc(s.Segments, func(g Segment) bool { return s.Left(&g) }):
		return Beside
	}
	return Outside
}

// Parts returns the parts of its steps, and the time outside of them for each; none where they are not
// told apart. Together they are as long as Step says. rest is Snapshot.Rest.
func (k *Rank) Parts(rest string) (parts []Part) {
	all := max(k.Time, k.Wait+k.Body)
	if k.Backward+k.Optimizer == 0 || all <= 0 {
		return nil
	}
	add := func(name string, ns int64) {
		if ns > 0 {
			parts = append(parts, Part{name, ns / max(1, k.Steps), float64(ns) / float64(all)})
		}
	}
	add(Getting, k.Wait)
	add(KindBackward.Info().Doing, k.Backward)
	add(KindOptimizer.Info().Doing, k.Optimizer)
	own, outside := k.Body-k.Backward-k.Optimizer, all-k.Wait-k.Body
	if rest == Neither {
		own, outside = 0, outside+own
	}
	add("forward + script code", own)
	if 100*outside >= all {
		add(rest, outside)
	}
	return parts
}

// rankCounts are the gauges that record a rank; each counts from its first batch.
var rankCounts = []struct {
	name string
	of   func(*Rank) *int64
}{
	{"steps", func(k *Rank) *int64 { return &k.Steps }},
	{"wait_ns", func(k *Rank) *int64 { return &k.Wait }},
	{"other_ns", func(k *Rank) *int64 { return &k.Other }},
	{"time_ns", func(k *Rank) *int64 { return &k.Time }},
	{"body_ns", func(k *Rank) *int64 { return &k.Body }},
	{"backward_ns", func(k *Rank) *int64 { return &k.Backward }},
	{"optimizer_ns", func(k *Rank) *int64 { return &k.Optimizer }},
	{"core_ns", func(k *Rank) *int64 { return &k.Core }},
	{"waiting_ns", func(k *Rank) *int64 { return &k.Waiting }},
	{"device_ns", func(k *Rank) *int64 { return &k.Device }},
	{"followed_ns", func(k *Rank) *int64 { return &k.Followed }},
	{"exposed_ns", func(k *Rank) *int64 { return &k.Exposed }},
	{"talks_ns", func(k *Rank) *int64 { return &k.Talks }},
	{"aside_ns", func(k *Rank) *int64 { return &k.Aside }},
	{"aside_wait_ns", func(k *Rank) *int64 { return &k.AsideWait }},
}

// Add adds what the rank did at another time.
func (k *Rank) Add(o *Rank) {
	for _, c := range rankCounts {
		*c.of(k) += *c.of(o)
	}
}

const rankPrefix = "rank_"

// rankNames are the names of ranks' gauges, in the order of rankCounts, by rank. They are made once.
var rankNames sync.Map

func rankGauges(rank int) []string {
	if names, ok := rankNames.Load(rank); ok {
		return names.([]string)
	}
	names := make([]string, len(rankCounts))
	for i, c := range rankCounts {
		names[i] = fmt.Sprintf("%s%d_%s", rankPrefix, rank, c.name)
	}
	rankNames.Store(rank, names)
	return names
}

// counting is how a rank is counted, by one process or gpustall after another.
type counting struct{ before, last Rank }

// Rank records what a rank did since its first batch. Where its count begins anew, it adds to what was recorded.
func (r *Recorder) Rank(k Rank) {
	r.mu.Lock()
	c := r.ranks[k.Rank]
	if c == nil {
		if r.ranks == nil {
			r.ranks = map[int]*counting{}
		}
		c = &counting{}
		r.ranks[k.Rank] = c
	}
	if k.Steps < c.last.Steps {
		c.before.Add(&c.last)
	}
	c.last = k
	k.Add(&c.before)
	r.mu.Unlock()
	names := rankGauges(k.Rank)
	for i, c := range rankCounts {
		if v := *c.of(&k); v != 0 || i < 3 {
			r.Gauge(names[i], float64(v))
		}
	}
}

// AddRank adds what a rank did up to the snapshot's end.
func (s *Snapshot) AddRank(k Rank) {
	if s.Gauges == nil {
		s.Gauges = map[string][]Point{}
	}
	names := rankGauges(k.Rank)
	for i, c := range rankCounts {
		if v := *c.of(&k); v != 0 || i < 3 {
			s.Gauges[names[i]] = append(s.Gauges[names[i]], Point{T: s.Now, V: float64(v)})
		}
	}
}

// Ranks returns what the ranks of a distributed training did between two moments, in order. A
// training of one process has one.
func (s *Snapshot) Ranks(from, to int64) (out []Rank) {
	for name := range s.Gauges {
		of, counts := strings.CutPrefix(name, rankPrefix)
		of, steps := strings.CutSuffix(of, "_steps")
		n, err := strconv.Atoi(of)
		if !counts || !steps || err != nil {
			continue
		}
		k := Rank{Rank: n}
		names := rankGauges(n)
		for i, c := range rankCounts {
			*c.of(&k) = s.grown(names[i], from, to)
		}
		if k.Steps > 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	return comparable(out)
}

// comparable leaves out what is not known of all ranks.
func comparable(ranks []Rank) []Rank {
	if slices.ContainsFunc(ranks, func(k Rank) bool { return k.Talks == 0 }) {
		for i := range ranks {
			ranks[i].Talks = 0
		}
	}
	return ranks
}

// InStep returns what Ranks does, but of the same steps of all: their counts come at different moments, and between these a change
// of settings may take effect. Where the ranks have few steps in common, it is of the same time.
func (s *Snapshot) InStep(from, to int64) []Rank {
	out := s.Ranks(from, to)
	first, last := int64(0), int64(math.MaxInt64)
	for _, k := range out {
		end := int64(reached(s.Gauges[rankGauges(k.Rank)[0]], to))
		first, last = max(first, end-k.Steps), min(last, end)
	}
	if slices.ContainsFunc(out, func(k Rank) bool { return 2*(last-first) < k.Steps }) {
		return out
	}
	for i := range out {
		k := Rank{Rank: out[i].Rank}
		names := rankGauges(k.Rank)
		for n, c := range rankCounts {
			*c.of(&k) = int64(s.atStep(names[0], names[n], last) - s.atStep(names[0], names[n], first))
		}
		out[i] = k
	}
	return comparable(out)
}

// atStep returns what a rank's count was when it had ended so many steps. Between two rows of counts it is interpolated.
func (s *Snapshot) atStep(steps, name string, step int64) float64 {
	rows, points := s.Gauges[steps], s.Gauges[name]
	row := func(i int) (ended, count float64) {
		if i < 0 {
			return 0, 0
		}
		until := int64(math.MaxInt64)
		if i+1 < len(rows) { // a row's counts are recorded one after the other, its steps first
			until = rows[i+1].T - 1
		}
		return rows[i].V, reached(points, until)
	}
	i := len(rows) - 1
	for i >= 0 && rows[i].V > float64(step) {
		i--
	}
	ended, count := row(i)
	if i+1 < len(rows) && rows[i+1].V > ended {
		more, then := row(i + 1)
		count += (then - count) * (float64(step) - ended) / (more - ended)
	}
	return count
}

// Still returns how long ago a rank last ended a step, in ns; false where nothing is known of it.
func (s *Snapshot) Still(rank int) (ns int64, known bool) {
	points := s.Gauges[rankGauges(rank)[0]]
	for i := len(points) - 1; i >= 0; i-- {
		if i == 0 || points[i].V != points[i-1].V {
			return s.Now - points[i].T, true
		}
	}
	return 0, false
}

// InEvaluation reports whether most of the time since the last step went to loops that do not train, such as an evaluation.
func (s *Snapshot) InEvaluation() bool {
	rank, _ := strconv.Atoi(knob.ValueOf(s.Meta.Host, JobRank)) // 0 where there is one alone
	return 2*s.grown(fmt.Sprintf("%s%d_aside_ns", rankPrefix, rank), s.Last.End, s.Now) > s.Now-s.Last.End
}

// grown returns by how much a counting gauge grew between two moments.
func (s *Snapshot) grown(name string, from, to int64) int64 {
	points := s.Gauges[name]
	return int64(reached(points, to) - reached(points, from-1))
}

// reached returns what a gauge was at a moment, 0 before its first reading.
func reached(points []Point, t int64) float64 {
	for i := len(points) - 1; i >= 0; i-- { // most is asked of the newest
		if points[i].T <= t {
			return points[i].V
		}
	}
	return 0
}
