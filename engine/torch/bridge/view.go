//go:build linux

package bridge

import (
	"sync"

	"dev.gpustall/engine/trace"
)

// view holds what any goroutine may ask about the session's process. Only the goroutine that reads
// the rings writes it.
type view struct {
	mu      sync.Mutex
	known   bool // there is such a process
	about   facts
	rank    trace.Rank
	worker  int64    // bytes of memory that a worker does not share; 0 while not known
	answers []Answer // of the ranks on this machine
	late    Late
	here    []int    // the ranks that are counted now
	said    sync.Map // texts of notes that the script's standard error has
}

// show replaces the facts.
func (v *view) show(f facts) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known, v.about = true, f
}

// Late is what looks found of a rank of this machine, beside the session's own, that others wait for.
type Late struct {
	Rank   int // -1 where there is none
	Lines  []trace.Line
	Stands []Stand // of all ranks of this machine
	Ends   []End   // of those whose processes have ended
	Here   []int   // the ranks of this machine that train
}

// LateOf returns which rank of this machine others wait for.
func LateOf(b *Bridge) Late {
	b.view.mu.Lock()
	is := b.view.late
	is.Here = b.view.here
	b.view.mu.Unlock()
	is.Ends = b.counts.ends.all()
	return is
}

// holds replaces the late rank, which p has.
func (v *view) holds(p *process, l *lines, stands []Stand) {
	is := Late{Rank: -1, Stands: stands}
	if p != nil {
		is = Late{Rank: p.hello.Rank, Lines: l.latest(), Stands: stands}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.late = is
}

// own replaces the ranks that are counted.
func (v *view) own(here []int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.here = here
}

// count replaces the rank.
func (v *view) count(r trace.Rank) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rank = r
}

// counted returns the rank.
func (v *view) counted() trace.Rank {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.rank
}

// weigh replaces the memory of a worker.
func (v *view) weigh(bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.worker = bytes
}

// facts returns the facts and the memory of a worker; known is false before the first batch.
func (v *view) facts() (about facts, worker int64, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.about, v.worker, v.known
}

// GPU returns NVML's name of the GPU that the session's loop computes on, and whether it uses one by
// now. The name is empty where PyTorch does not tell it, and in tests with a stand-in for a GPU.
func (b *Bridge) GPU() (uuid string, used bool) {
	f, _, _ := b.view.facts()
	if !f.hello.Stand {
		uuid = f.hello.UUID
	}
	return uuid, f.onDevice()
}

// Main returns what is known of the process that the session is about, from its first batch on. After an elastic restart it
// is another one.
func (b *Bridge) Main() Hello {
	f, _, _ := b.view.facts()
	return f.hello
}

// Did returns the totals of the session's loop, at most a second old.
func (b *Bridge) Did() trace.Rank { return b.view.counted() }
