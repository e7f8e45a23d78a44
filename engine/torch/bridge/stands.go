//go:build linux

package bridge

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/torch/frames"
	"dev.gpustall/engine/trace"
)

// standsAfter is how long looks find a thread at one place until it counts as standing there.
const standsAfter = 5 * time.Second

// threadID names a thread.
type threadID struct{ pid, tid int }

// stand is where looks find a thread.
type stand struct {
	of    thread
	frame frames.Frame // the innermost one
	since time.Time
	other bool       // the last look found another place: a wait in Python wakes now and then
	at    trace.Line // the place, once it stands there
	waits bool       // for other ranks, as far as can be told
}

// stood takes a look at a thread. Only the goroutine that looks calls it.
func (l *lines) stood(t thread, stack []frames.Frame) {
	id := threadID{t.pid, t.tid}
	l.mu.Lock()
	if l.stands == nil {
		l.stands = map[threadID]*stand{}
	}
	s := l.stands[id]
	switch {
	case s != nil && s.frame == stack[0]:
		s.other = false
	case s != nil && !s.other:
		s.other = true
	default:
		s = &stand{of: t, frame: stack[0], since: time.Now()}
		l.stands[id] = s
	}
	due := s.at.At == "" && !s.other && time.Since(s.since) >= standsAfter && !strings.Contains(stack[0].File, "/gpustall/")
	l.mu.Unlock()
	if !due {
		return
	}
	at := l.place(stack, t.role)
	waits := at.At == trace.Exchange || at.At == trace.Backward && l.library(stack[0].File) // else a function of the user's holds the pass up
	l.mu.Lock()
	s.at, s.waits = at, waits
	l.mu.Unlock()
}

// leaveStands forgets threads that are looked at no more.
func (l *lines) leaveStands() {
	if len(l.stands) > len(l.threads)+len(l.ranks) {
		maps.DeleteFunc(l.stands, func(id threadID, _ *stand) bool {
			is := func(t thread) bool { return t.pid == id.pid && t.tid == id.tid }
			return !slices.ContainsFunc(l.threads, is) && !slices.ContainsFunc(l.ranks, is)
		})
	}
}

// Stand is where a rank of this machine has been for a while.
type Stand struct {
	Rank, PID int
	At        trace.Line // of its loop
	Worker    trace.Line // where a worker of it is that loads; zero where none is known
	Held      int        // the process of that worker, where it is stopped
	Waits     bool       // for other ranks
	Stopped   bool       // its process
}

// standsOf returns the ranks whose loops stand. It notes a rank that stands as it waits for data: its workers are looked at.
func standsOf(b *Bridge) (all []Stand) {
	loops, workers := b.lines.standing()
	b.counts.starved = nil
	for _, p := range b.processes {
		if s, ok := loops[p.pid]; ok && p != b.main && s.at.At == trace.Waiting {
			b.counts.starved = p
			break
		}
	}
	if b.main.hello.World <= 1 || len(loops) == 0 {
		return nil
	}
	for rank, c := range b.counts.of {
		p := c.by
		if at, stands := loops[p.pid]; stands && lives(p.pid) {
			is := Stand{Rank: max(0, rank), PID: p.pid, At: at.at, Worker: workers[p.pid].at, Waits: at.waits, Stopped: stopped(p.pid)}
			if w, ok := workers[p.pid]; ok && stopped(w.of.pid) {
				is.Held = w.of.pid
			}
			all = append(all, is)
		}
	}
	slices.SortFunc(all, func(a, b Stand) int { return a.Rank - b.Rank })
	return all
}

// standing returns where loops stand, and workers that load, by the process of the loop.
func (l *lines) standing() (loops, workers map[int]stand) {
	loops, workers = map[int]stand{}, map[int]stand{}
	l.mu.Lock()
	for _, s := range l.stands {
		switch {
		case s.at.At == "":
		case s.of.role == roleLoop:
			loops[s.of.of] = *s
		case s.at.At == trace.Loading:
			workers[s.of.of] = *s
		}
	}
	l.mu.Unlock()
	for _, all := range []map[int]stand{loops, workers} {
		for pid, s := range all {
			s.at.Text = l.text(&s.at)
			all[pid] = s
		}
	}
	return loops, workers
}

// stopped reports whether a process is stopped, by SIGSTOP or a debugger.
func stopped(pid int) bool {
	fields := statOf(pid)
	return len(fields) > 0 && (fields[0][0] == 'T' || fields[0][0] == 't')
}

// share is how much of the loop's time with a batch in hand it exchanges data, of late.
type share struct{ talks, all float64 }

// shareSpan is the time after which a look weighs a half.
const shareSpan = 4 * time.Second

// add takes a look at the loop.
func (s *share) add(at trace.Doing, took time.Duration) {
	if !at.OfStep() {
		return
	}
	half := math.Exp2(-float64(took) / float64(shareSpan))
	s.talks, s.all = s.talks*half, s.all*half+float64(took)
	if at == trace.Exchange {
		s.talks += float64(took)
	}
}

// exchanged takes a look at the loop of the session's own process.
func (l *lines) exchanged(at trace.Doing, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.talking.add(at, took)
}

// exchanging returns which part of a step the loop exchanges data, of late, as looks find it: 0 to 1.
func (l *lines) exchanging() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.talking.talks / max(1, l.talking.all)
}
