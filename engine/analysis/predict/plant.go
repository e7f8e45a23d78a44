package predict

import (
	"math"
	"slices"
)

// demand is what loading one batch takes of a worker, in ns.
type demand struct {
	core    float64 // on a core
	blocked float64 // elsewhere
}

// depth is how many steps the step loop enqueues ahead of the device. inputs is how
// many batches the device has room for: the copy of step n waits for the compute of
// step n - inputs. Both are those of engine/train.
const (
	depth  = 3
	inputs = 2
)

// turns is how often a worker changes between waiting and computing in a batch, because samples are
// read and decoded in chunks. More turns make hardly any difference.
const turns = 2

// plant is what is simulated: workers that share the cores with others, a queue of
// batches, the step loop, a copy engine and the device.
type plant struct {
	workers    int // 0: the step loop loads
	prefetch   int // batches a worker may be ahead
	inOrder    bool
	inTurns    bool // each batch goes to the worker whose turn it is, as in PyTorch; else to an idle one
	persistent bool
	epoch      int // batches in one; 0: endless

	load    []demand  // of batches, in their order, repeated without end
	took    []float64 // ns that loading them took as measured, waits for cores included
	late    []float64 // by worker: by how many ns its batches take longer than the others'; workers beyond the list are not late
	start   float64   // ns that a worker takes to start
	wake    float64   // ns that pass before a worker begins with any batch
	host    float64   // ns that the step loop takes to enqueue a step and to record one
	copy    float64   // ns that a batch is copied
	compute []float64 // ns that steps compute with the cores to themselves, repeated without end
	gap     float64   // ns that the device is idle between any two steps, even when the next is ready

	held float64 // ns more that taking a ready batch takes while the process of its worker computes another

	serial  bool    // the device is the step loop's own thread, which computes a batch before it asks for the next
	threads float64 // how many threads the device computes with on the host's cores; 0: it has cores of its own
	blocked float64 // the share of a step's time in which none of these threads wants a core
	prompt  float64 // how many times as long a step's computing has to wait for turns as one that always wants a core; 0: as long
	cores   float64
	rivals  float64 // threads of other processes that always want a core
	uneven  float64 // share of the cores that idles while as many threads as cores want one
	disk    float64 // reads that go on side by side without slowing each other down; 0: any number
}

// flow is the result of a simulation.
type flow struct {
	step float64 // ns a batch
	data float64 // share of that in which the device waits for data
	lack float64 // ns that workers have no core for a batch
	busy float64 // ns that the device takes for a step, with its waits for a core and the gap
}

// happening is what an event of the plant is.
type happening uint8

const (
	begun     happening = iota // a worker begins with a batch
	unblocked                  // a worker goes on, after it was blocked
	enqueued                   // the step loop has enqueued a step
	copied                     // a batch is on the device
	woken                      // a step goes on to compute, after it was blocked
	computed                   // a step is done
)

// event is what happens next. Its time is the virtual time of the cores for work on a core, and
// plain time for anything else.
type event struct {
	at   float64
	what happening
	who  int32
}

// events is a heap with the earliest event first. The order of equal times does not depend on when
// they were pushed, but it is always the same.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *events) pop() event {
	s := *h
	first, n := s[0], len(s)-1
	s[0] = s[n]
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if s[c].at < s[least].at {
				least = c
			}
		}
		if least == i {
			return first
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

func (h events) first() float64 {
	if len(h) == 0 {
		return math.Inf(1)
	}
	return h[0].at
}

// Steps of a simulation: those measured, and those that go before them where the start
// must not count.
const (
	counted = 192
	warm    = 48
	longest = 288 // batches of an epoch that are simulated one by one
)

// flow simulates the plant. Where workers start anew in each epoch, it simulates from the start of
// one epoch to the start of the next. Else it simulates some steps after the start.
func (p *plant) flow() flow {
	if p.workers > 0 && !p.persistent && p.epoch > counted/2 {
		return p.coldEpoch()
	}
	from := max(warm, 2*p.workers*p.prefetch)
	to := from + max(counted, 4*p.workers*p.prefetch)
	if p.epoch > 0 && p.epoch <= counted { // whole epochs
		from = (from + p.epoch - 1) / p.epoch * p.epoch
		to = from + (to-from+p.epoch-1)/p.epoch*p.epoch
	}
	s := newSimulation(p, to, p.persistent || p.epoch == 0 || p.workers == 0)
	s.until(to)
	time := s.done[to-1] - s.done[from-1]
	return flow{time / float64(to-from), share(s.waited[from:to], time), s.sums.lack / float64(to), s.sums.busy / float64(to)}
}

// coldEpoch simulates one epoch whose workers have to start. Of a long epoch it simulates the
// first and the last batches, and takes the rate in the middle for the rest.
func (p *plant) coldEpoch() flow {
	n := min(p.epoch, max(longest, 4*p.workers*p.prefetch))
	q := *p
	q.epoch = n
	s := newSimulation(&q, n+depth, false)
	s.until(n)
	time, waited := s.turned, 0.0
	for _, w := range s.waited[:n] {
		waited += w
	}
	if rest := float64(p.epoch - n); rest > 0 {
		a, b := n/3, n-n/6
		middle := (s.done[b] - s.done[a]) / float64(b-a)
		time += rest * middle
		waited += rest * middle * share(s.waited[a:b], s.done[b]-s.done[a])
	}
	return flow{time / float64(p.epoch), min(1, waited/time), s.sums.lack / float64(n), s.sums.busy / float64(n)}
}

// share returns the part of a time that was spent waiting.
func share(waits []float64, time float64) float64 {
	sum := 0.0
	for _, w := range waits {
		sum += w
	}
	return min(1, sum/time)
}

// same reports whether two plants are equal, as far as assumptions change them: loads and steps are changed all
// by the same.
func (p *plant) same(o *plant) bool {
	alike := func(a, b []demand) bool {
		return len(a) == len(b) && (len(a) == 0 || a[0] == b[0] && a[len(a)-1] == b[len(b)-1])
	}
	return alike(p.load, o.load) && slices.Equal(p.compute, o.compute) &&
		p.start == o.start && p.wake == o.wake && p.held == o.held && p.host == o.host && p.copy == o.copy && p.gap == o.gap &&
		p.cores == o.cores && p.rivals == o.rivals && p.uneven == o.uneven && p.disk == o.disk
}
