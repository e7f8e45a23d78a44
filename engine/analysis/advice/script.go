package advice

import (
	"fmt"
	"strconv"

	"dev.gpustall/engine/analysis/fleet"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// script is the user's own training loop, in PyTorch.
type script struct {
	session *session
	host    *host
	left    bool // it took batches from a DataLoader before, and takes none from it now
}

// scripted reports whether busy time means that the script has a batch in hand, whatever it does
// with the batch. On a CPU nothing tells the device's work from the rest.
func (p *script) scripted() bool {
	return p.host.device && (p.session.pytorch() || p.session.imported())
}

// alone reports whether nothing tells what the loop waits for.
func (p *script) alone() bool { return p.session.Meta.Alone() || p.left }

// untrained says how much of a step the script spends in neither backward passes nor the optimizer.
// It is empty where that is not known. It is a clause after one about the busy time.
func (p *script) untrained() string {
	k, known := p.loop()
	if !known || !p.scripted() || k.Backward <= 0 {
		return ""
	}
	in := "neither backward pass nor optimizer"
	if k.Optimizer == 0 { // an old PyTorch does not tell of the optimizer
		in = "not backward pass"
	}
	each := func(ns int64) string { return units.Prose.Time(ns / max(1, k.Steps)) }
	return fmt.Sprintf("; of a step's %s, %s are %s", each(k.Wait+k.Body), each(k.Body-k.Backward-k.Optimizer), in)
}

// launchBound is the share of the time with a step and without a running kernel from which a GPU is
// launch-bound. NVML's samples are too rough for less.
const launchBound = 0.3

// follows reports whether the GPU ended nearly all steps as soon as the script had enqueued them. The
// script then takes as long to enqueue a step as the GPU takes for it, or it waits for the GPU itself.
func (p *script) follows() bool {
	k, known := p.loop()
	return known && k.Device > 0 && float64(k.Followed) >= 0.8*float64(k.Device)
}

// kernels returns the share of the time in which a GPU that follows the script runs a kernel. known
// is false where the GPU does not follow, where NVML does not tell, or where NVML also counts much
// besides the steps.
func (p *script) kernels() (share float64, known bool) {
	share, known = p.session.gauge(trace.GaugeKernels)
	k, _ := p.loop()
	return share / 100, known && p.follows() && 10*k.Aside <= k.Time
}

// elsewhere returns how many ranks are on other machines, and how many there are in all; 0 where
// that is not known.
func (p *script) elsewhere() (ranks, all int) {
	all, _ = strconv.Atoi(p.session.fact(trace.JobRanks))
	here, err := strconv.Atoi(p.session.fact(trace.JobHere))
	if err != nil {
		return 0, all
	}
	return max(0, all-here), all
}

// loop returns what the session's own loop did in the steps judged; false where that was not
// measured.
func (p *script) loop() (k trace.Rank, known bool) { return p.since(p.session.from) }

// since returns what loop does, of all steps since then.
func (p *script) since(from int64) (k trace.Rank, known bool) {
	if !p.session.pytorch() {
		return k, false
	}
	to := p.session.to
	if p.session.Last.End <= to { // counts come once a second
		to = max(to, p.session.Now)
	}
	return p.session.Own(from, to)
}

// blocked returns the share of the time with a batch in hand in which the loop's thread was neither on a core nor waited
// for one, 0 to 1; 0 where that was not measured.
func (p *script) blocked() float64 {
	k, known := p.loop()
	if !known || k.Core+k.Waiting <= 0 {
		return 0
	}
	return float64(max(0, k.Body-k.Core-k.Waiting)) / float64(max(1, k.Body))
}

// holder is the rank that the session's own one waits for.
type holder struct {
	rank  int
	loads bool    // it waits for data; otherwise its script is late
	share float64 // of the own rank's time in which it waits for the holder, 0 to 1
}

// rankWindow is the least time, in ns, over which ranks are compared, because their counts come once a
// second.
const rankWindow = 10e9

// waitsFor finds the rank that holds up this one. late says that this one holds up the others. Both are false where no rank stands
// out.
func (p *script) waitsFor() (h holder, ok, late bool) {
	s := p.session
	from, to := min(s.from, s.to-rankWindow), s.to
	if n := len(s.Recent); n > 0 && s.Recent[n-1].End <= to { // what others told of their last steps came after them
		to = s.Now
	}
	own, known := s.Own(from, to)
	ranks := s.InStep(from, to)
	if !known || len(ranks) < 2 || s.imported() {
		return h, false, false
	}
	j := fleet.OfRanks(ranks)
	last := j.Holder()
	if last == nil || last.Rank.Rank == own.Rank {
		return h, false, last != nil
	}
	for i := range j.Members {
		if m := &j.Members[i]; m.Rank.Rank == own.Rank {
			h.share = float64(m.Waited) / float64(max(1, m.Time))
		}
	}
	h.rank, h.loads = last.Rank.Rank, j.Loads(last)
	return h, true, false
}

// called names a rank, and its machine where that is another one.
func (p *script) called(rank int) string {
	peer, _ := p.peer(rank)
	if peer.Node == p.session.fact(trace.JobNode) {
		return RankOn(rank, "")
	}
	return RankOn(rank, peer.Node)
}

// peer returns what the gpustall of another rank tells of it.
func (p *script) peer(rank int) (trace.Peer, bool) {
	for _, peer := range p.session.Peers {
		if peer.Rank == rank {
			return peer, true
		}
	}
	return trace.Peer{}, false
}

// describe names the rank and says what it does while the own one waits.
func (p *script) describe(h holder) string {
	peer, _ := p.peer(h.rank)
	text := p.called(h.rank) + ", whose script is late"
	if h.loads {
		text = p.called(h.rank) + ", which waits for data"
		if peer.Waits != "" {
			text = p.called(h.rank) + ", which waits for " + units.Line(peer.Waits)
		}
	}
	if peer.Line != "" && h.loads == (peer.Waits != "") {
		text += " at " + units.Line(peer.Line)
	}
	return text
}

// hasten says what to do about a rank that the others wait for.
func (p *script) hasten(rank int) string {
	peer, _ := p.peer(rank)
	line := units.Line(peer.Line)
	switch {
	case line == "":
		return fmt.Sprintf("fix %s, which the others wait for", p.called(rank))
	case peer.Waits == "":
		return fmt.Sprintf("speed up %s, where %s is late", line, p.called(rank))
	}
	return fmt.Sprintf("speed up %s, where %s loads, or test more workers", line, p.called(rank))
}

// others says that the loop waits for other loaders than the one whose settings are shown. It is
// empty where the loop does so little or never.
func (p *script) others() string {
	k, known := p.loop()
	if !known || 2*k.Other < k.Wait || k.Wait == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the waiting is for another DataLoader, which the loop takes from in turn with this one (zip, for instance): what is set here goes for both, and in the script its own num_workers is what to raise",
		units.Prose.Percent(float64(k.Other)/float64(k.Wait)))
}
