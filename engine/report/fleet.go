package report

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/fleet"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// Fleet is the report of a distributed training, made of the sessions of its ranks.
type Fleet struct {
	job   *fleet.Job
	name  string // of the job, as its launcher has it
	meta  *trace.Meta
	ranks map[int]*ranked
	twice []int // ranks of which more than one session tells
	rate  float64

	peers  []trace.Peer // of all sessions, one of each rank
	failed bool         // the training did
}

// ranked is what a session tells of a rank.
type ranked struct {
	member fleet.Member
	side   *Side
	own    bool // the session is about this rank, and knows its steps, causes and lines
	heard  bool // the session has only what another gpustall told about the rank
	at     advice.Place
}

// NewFleet reads the sessions of one job. If several sessions tell of a rank, the session about that
// rank counts, or else the one with most of its steps. The report uses the snapshots as long as it
// lives.
func NewFleet(sides []Side, rate float64) *Fleet {
	f := &Fleet{ranks: map[int]*ranked{}, rate: rate}
	world := 0
	for i := range sides {
		s, _ := plain(sides[i].Snapshot, Options{})
		side := &Side{Session: sides[i].Session, Snapshot: s}
		if f.meta == nil {
			f.meta = &s.Meta
		}
		f.name = cmp.Or(f.name, knob.ValueOf(s.Meta.Host, trace.JobName))
		f.rate = cmp.Or(f.rate, s.Meta.GPURate)
		n, _ := strconv.Atoi(knob.ValueOf(s.Meta.Host, trace.JobRanks))
		world = max(world, n)
		f.add(side)
	}
	members := make([]fleet.Member, 0, len(f.ranks))
	for _, r := range f.ranks {
		members = append(members, r.member)
	}
	slices.SortFunc(members, func(a, b fleet.Member) int { return cmp.Compare(a.Rank.Rank, b.Rank.Rank) })
	slices.Sort(f.twice)
	f.job = fleet.Of(members, world)
	return f
}

// add takes what a session tells of its ranks.
func (f *Fleet) add(side *Side) {
	s := side.Snapshot
	f.failed = f.failed || s.Outcome.Status == "failed"
	for _, p := range s.Peers {
		if p.Gone != 0 && !p.Silent && !slices.ContainsFunc(f.peers, func(o trace.Peer) bool { return o.Rank == p.Rank }) {
			f.peers = append(f.peers, p)
		}
	}
	all := s.Ranks(0, s.Now)
	about, err := strconv.Atoi(knob.ValueOf(s.Meta.Host, trace.JobRank))
	if err != nil && len(all) > 0 { // an older file does not say which rank it is about, which then is the first
		about = all[0].Rank
	}
	for _, k := range all {
		r := &ranked{side: side, own: k.Rank == about, member: fleet.Member{Rank: k, Host: knob.ValueOf(s.Meta.Host, trace.JobNode), Exact: s.Meta.Imported != ""}}
		for _, p := range s.Peers {
			if p.Rank != k.Rank || k.Rank == about { // of the own one it is where it stood
				continue
			}
			if r.at = advice.Told(&p); p.Node != r.member.Host || p.Session != "" { // else this gpustall watched it itself
				r.heard, r.member.Host = true, p.Node
			}
		}
		if old := f.ranks[k.Rank]; old != nil {
			if !old.heard && !r.heard {
				f.twice = append(f.twice, k.Rank)
			}
			if old.better(r) {
				continue
			}
		}
		if f.ranks[k.Rank] = r; r.own {
			r.member.Varies = varies(s, &k)
			r.look(s)
		}
	}
}

// better reports whether r knows more of its rank than o does.
func (r *ranked) better(o *ranked) bool {
	switch {
	case r.own != o.own:
		return r.own
	case r.heard != o.heard:
		return o.heard
	}
	return r.member.Steps >= o.member.Steps
}

// varies yields the part of a rank's own time that its session knows of each step.
func varies(s *trace.Snapshot, k *trace.Rank) iter.Seq2[int32, int64] {
	return func(yield func(int32, int64) bool) {
		first := int32(1)
		if s.Meta.Imported != "" {
			first = math.MinInt32
		}
		n := int32(0)
		for st, err := range s.Each(first, math.MaxInt32) {
			if err != nil {
				return
			}
			ns, at := st.Wait, st.Index
			switch {
			case k.Exposed > 0:
				ns = max(0, st.Active()-st.Stall[trace.CauseCommunication]-k.Talks/max(1, k.Steps))
			case k.Device > 0:
				ns = st.Active() - st.Busy
			}
			if n++; s.Meta.Imported != "" { // a trace has steps from some number on, which all count
				at = n
			}
			if st.Flags&trace.FlagLost == 0 && !yield(at, ns) {
				return
			}
		}
	}
}

// look finds out what the rank waits for, and where its script spends its time, in the settings that it
// ran with longest.
func (r *ranked) look(s *trace.Snapshot) {
	t := new(trace.Tally)
	for i := range s.Segments {
		if of := s.Tally(s.Segments[i].Index); of.Steady.Steps > t.Steady.Steps {
			t = of
		}
	}
	r.at = advice.At(s, t)
}

// Lead returns the session about the lowest rank that has one, and how the ranks went together.
func (f *Fleet) Lead() (side Side, how string, ok bool) {
	for n := range f.job.World {
		if r := f.ranks[n]; r != nil && r.own {
			return *r.side, fmt.Sprintf("It is about rank %d of %d: %s.", n, f.job.World, f.headline()), true
		}
	}
	return Side{}, "", false
}

// Ranks returns how many ranks the report tells of.
func (f *Fleet) Ranks() int { return len(f.ranks) }

// Markdown writes the report.
func (f *Fleet) Markdown(w io.Writer) error { return f.document().Markdown(w) }

// HTML writes it as one page.
func (f *Fleet) HTML(w io.Writer) error { return f.document().HTML(w) }

func (f *Fleet) document() *markup.Document {
	d := &markup.Document{}
	title := fmt.Sprintf("gpustall report: %s on %s", cmp.Or(f.meta.Model, "a training"), units.Counted(f.job.World, "rank", "ranks"))
	if f.name != "" {
		title += ", job " + f.name
	}
	d.Heading(1, markup.Text(title))
	if first := advice.FirstGone(f.peers, f.job.World); f.failed && first != "" {
		d.Para("**%s.**", markup.Text(markup.Sentence("the training failed: "+first)))
	}
	d.Para("**%s.**", markup.Text(markup.Sentence(f.headline())))
	f.holder(d)
	f.settings(d)
	f.table(d)
	f.caveats(d)
	f.sessions(d)
	return d
}

// headline says in one sentence how the ranks go together.
func (f *Fleet) headline() string {
	j := f.job
	lost := func() string {
		return units.Prose.Percent(float64(j.Lost)/float64(max(1, j.Time))) + " of the time of all ranks"
	}
	h := j.Holder()
	switch {
	case len(j.Members) == 0:
		return "no rank ended a step, so there is nothing to account for"
	case len(j.Members) == 1:
		return fmt.Sprintf("only rank %d is known, so there is nothing to compare", j.Members[0].Rank.Rank)
	case j.Apart && f.failed:
		return "the ranks' steps cannot be compared: some took longer on average, as those of ranks that waited at the end"
	case j.Apart:
		return "the ranks do not take the same time for a step, so they do not wait for each other in each"
	case h != nil:
		return fmt.Sprintf("the others wait for %s: %s is lost to that", f.called(h), lost())
	case j.Uneven():
		return fmt.Sprintf("the ranks wait for each other in turn: %s is lost to that, and to no rank most of it", lost())
	}
	return fmt.Sprintf("the ranks go in step: they wait for each other %s", lost())
}

// called names a rank and its machine.
func (f *Fleet) called(m *fleet.Member) string { return advice.RankOn(m.Rank.Rank, m.Host) }

// holder says why the other ranks wait for one rank, and what to do.
func (f *Fleet) holder(d *markup.Document) {
	h := f.job.Holder()
	if h == nil {
		return
	}
	r := f.ranks[h.Rank.Rank]
	text := fmt.Sprintf("At %s of %s it comes last to where gradients are exchanged.", units.Count(h.Last), units.Counted(f.job.Steps, "step", "steps"))
	switch each := units.Prose.Time(h.Own() / max(1, h.Steps)); {
	case f.job.Loads(h):
		text += fmt.Sprintf(" It waits for data %s of its time", units.Prose.Percent(h.Data()))
		if r.at.Waits != "" {
			text += ": for " + r.at.Waits
		}
		if r.at.Loading != "" {
			text += ", and most of loading is spent at " + r.at.Loading
		}
		text += "."
	case r.at.Script != "":
		text += fmt.Sprintf(" It takes %s of a step outside of where ranks wait for each other; of its script's lines, most is spent at %s.", each, r.at.Script)
	default:
		text += fmt.Sprintf(" It takes %s of a step outside of where ranks wait for each other.", each)
	}
	d.Para("%s", markup.Text(text))
	lost := fmt.Sprintf("The ranks together lost %s of device time", units.Prose.Time(f.job.Lost))
	if f.rate > 0 {
		lost += fmt.Sprintf(", %s at %s an hour", units.Dollars(float64(f.job.Lost)/3.6e12*f.rate), units.Dollars(f.rate))
	}
	d.Para("%s", markup.Text(lost+"."))
	if !r.own {
		if r.at != (advice.Place{}) {
			return
		}
		d.Para("What it waits for is not recorded: a gpustall torch of its own there tells.")
		return
	}
	a, _ := advice.Overall(r.side.Snapshot, newAccount(r.side.Snapshot).rows)
	if next := a.Text(); f.job.Loads(h) && next != "" {
		d.Para("%s", markup.Text("Next, for that rank: "+next+"."))
	}
	d.Para("%s", markup.Text("All of it: gpustall report "+r.side.Session))
}

// settings says which settings to keep, by the lowest rank that has a session. They are the same on all ranks.
func (f *Fleet) settings(d *markup.Document) {
	side, _, ok := f.Lead()
	if !ok {
		return
	}
	if a, _ := advice.Overall(side.Snapshot, newAccount(side.Snapshot).rows); a.Keep.Text != "" {
		text := a.Keep.Text
		if len(a.Keep.Knobs) > 0 {
			text = markup.Text(knob.Join(a.Keep.Knobs, ", ")) + ": " + text
		}
		d.Para("%s", "On all ranks, "+text+".")
	}
}

// mostRanks is how many ranks the table has at most; the CSV has all.
const mostRanks = 128

func (f *Fleet) table(d *markup.Document) {
	d.Heading(2, "Ranks")
	on := f.node()
	if on != "" {
		d.Para("%s", markup.Text("All of them ran on "+on+"."))
	}
	rows := [][]string{{">rank", "on", ">a step", ">waits for data", ">for others", ">held others", "waits for"}}
	part := func(ns int64, m *fleet.Member) string {
		return units.Prose.Percent(float64(ns) / float64(max(1, m.Time)))
	}
	for i := range f.job.Members {
		m := &f.job.Members[i]
		waited, held := part(m.Waited, m), units.Prose.Time(m.Held)
		if f.job.Apart || len(f.job.Members) < 2 {
			waited, held = "-", "-"
		}
		rows = append(rows, []string{strconv.Itoa(m.Rank.Rank), markup.Text(cmp.Or(m.Host, "-")), units.Prose.Time(m.Step()), units.Prose.Percent(m.Data()), waited, held, markup.Text(f.waitsFor(m))})
		if len(rows) > mostRanks {
			break
		}
	}
	if on != "" {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	d.Table(rows)
	if more := len(f.job.Members) - mostRanks; more > 0 {
		d.Para("%s more are left out, which cost the others least; --format csv has all.", units.Count(more))
	}
}

// node returns the machine of all ranks; empty where they ran on several, or that is not known.
func (f *Fleet) node() string {
	for i := range f.job.Members {
		if f.job.Members[i].Host != f.job.Members[0].Host {
			return ""
		}
	}
	if len(f.job.Members) == 0 {
		return ""
	}
	return f.job.Members[0].Host
}

// waitsFor says what a rank waits for, if for anything.
func (f *Fleet) waitsFor(m *fleet.Member) string {
	moderate, _ := advice.Thresholds()
	var all []string
	if m.Data() >= moderate {
		what := "data"
		if r := f.ranks[m.Rank.Rank]; r.at.Loading != "" {
			what += ": " + r.at.Loading
		} else if r.at.Waits != "" {
			what += ": " + r.at.Waits
		}
		all = append(all, what)
	}
	if float64(m.Waited) >= moderate*float64(m.Time) {
		what := "other ranks"
		if h := f.job.Holder(); h != nil && h.Rank.Rank != m.Rank.Rank {
			what = fmt.Sprintf("rank %d", h.Rank.Rank)
		}
		if all = append(all, what); m.Waited > m.Wait {
			slices.Reverse(all)
		}
	}
	return cmp.Or(strings.Join(all, "; "), "-")
}

func (f *Fleet) caveats(d *markup.Document) {
	d.Heading(2, "How this is counted")
	d.Sentences(
		"Steps are aligned by their numbers from each rank's first batch on, and no clocks are compared.",
		"A rank's own time in a step is what it spends outside of backward passes, and of other exchanges where looks at its loop tell of them, because ranks wait for each other there; on a GPU, while the device has no step; in imported traces, while no communication is exposed.",
		"The rank with the longest own time comes last, and the others wait for it by as much as theirs is shorter, but no longer than their passes took.",
		"Waits for data are known of each step; the rest of the script's own time is a mean, so that what is late now and then is told too evenly.",
	)
	f.unknown(d)
}

// unknown says what is not known of some ranks.
func (f *Fleet) unknown(d *markup.Document) {
	if n := len(f.job.Missing); n > 0 {
		d.Line("- No session tells of %s %s.", plural(n, "rank", "ranks"), ranges(f.job.Missing))
	}
	if n := len(f.twice); n > 0 {
		d.Line("- More than one session tells of %s %s: the one that is about it counts, or the longer one.", plural(n, "rank", "ranks"), ranges(slices.Compact(f.twice)))
	}
	var sums []int
	for n, r := range f.ranks {
		if !r.own {
			sums = append(sums, n)
		}
	}
	if n := len(sums); n > 0 {
		slices.Sort(sums)
		d.Line("- Of %s %s only sums are known, from the session of another rank: one gpustall torch a rank tells causes and lines.", plural(n, "rank", "ranks"), ranges(sums))
	}
	if len(f.job.Missing)+len(f.twice)+len(sums) > 0 {
		d.Line("")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// ranges writes the numbers of ranks.
func ranges(sorted []int) string { return units.Ranges(sorted, ", ") }

// sessions lists the files.
func (f *Fleet) sessions(d *markup.Document) {
	d.Heading(2, "Sessions")
	of := map[string][]int{}
	for n, r := range f.ranks {
		of[r.side.Session] = append(of[r.side.Session], n)
	}
	names := slices.Collect(maps.Keys(of))
	for _, ranks := range of {
		slices.Sort(ranks)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(of[a][0], of[b][0]), cmp.Compare(a, b)) })
	for _, session := range names {
		d.Line("- %s %s: %s", plural(len(of[session]), "rank", "ranks"), ranges(of[session]), markup.Text(session))
	}
	d.Line("")
}

// CSV writes the table of ranks.
func (f *Fleet) CSV(w io.Writer) error {
	c := markup.NewCSV(w)
	c.Row([]string{"rank", "node", "steps", "step_s", "data_share", "own_s", "waited_s", "held_s", "last_steps", "session"})
	for i := range f.job.Members {
		m := &f.job.Members[i]
		c.Row([]string{strconv.Itoa(m.Rank.Rank), m.Host, itoa(m.Steps), exact(m.Step()), strconv.FormatFloat(m.Data(), 'g', 4, 64),
			exact(m.Own()), exact(m.Waited), exact(m.Held), itoa(m.Last), f.ranks[m.Rank.Rank].side.Session})
	}
	return c.End()
}
