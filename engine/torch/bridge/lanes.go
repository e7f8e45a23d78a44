//go:build linux

package bridge

import "dev.gpustall/engine/trace"

// lanes are the tracks of the workers of a process, by the ring that each writes.
type lanes map[*ring]trace.TrackID

// of returns the track of a writer. A worker gets the track of its number, or the next one that no
// running worker has.
func (l lanes) of(r *ring) trace.TrackID {
	switch r.role {
	case roleLoop:
		return trace.TrackStep
	case roleInline:
		return trace.TrackInline
	case rolePin:
		return trace.TrackPin
	}
	if t, ok := l[r]; ok {
		return t
	}
	n := min(max(r.worker, 0), trace.MaxWorkers-1)
	if r.role == roleSender { // a thread of a worker that has a track already
		for w, t := range l {
			if w.pid == r.pid {
				return t
			}
		}
		return trace.Worker(n)
	}
	for i := 0; i < trace.MaxWorkers && l.taken(trace.Worker(n)); i++ {
		n = (n + 1) % trace.MaxWorkers
	}
	l[r] = trace.Worker(n)
	return trace.Worker(n)
}

// taken reports whether a worker that still runs has a track.
func (l lanes) taken(t trace.TrackID) bool {
	for r, has := range l {
		if has == t && !r.over() {
			return true
		}
	}
	return false
}

// leave frees the track of a writer that has ended.
func (l lanes) leave(r *ring) { delete(l, r) }
