package store

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"dev.gpustall/engine/trace"
)

const (
	followEvery = time.Second // at the most often
	followShare = 20          // reading may take one part in so many of the time
)

// Followed is a session that another process may still be writing. A snapshot costs what it costs of
// any session: the file is read by a goroutine of Followed's own.
type Followed struct {
	path string
	now  atomic.Pointer[trace.Session]
	stop context.CancelFunc
	done chan struct{}
}

// Follow opens a session's file and reads it again once a second while it is being written. Where
// reading takes long it is read less often, so that it takes at most a twentieth of the time. Call
// Close at the end.
func Follow(path string) (*Followed, error) {
	f := &Followed{path: path, done: make(chan struct{})}
	begun := time.Now()
	if err := f.read(); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	go f.follow(ctx, time.Since(begun))
	return f, nil
}

// Running reports whether the session is being written, as far as its file tells.
func (f *Followed) Running() bool { return f.status() == "running" }

// Snapshot is that of the file as it was read last.
func (f *Followed) Snapshot(from, to int64) *trace.Snapshot { return f.now.Load().Snapshot(from, to) }

// Session returns the session as it was read last.
func (f *Followed) Session() *trace.Session { return f.now.Load() }

// Close ends the reading.
func (f *Followed) Close() {
	f.stop()
	<-f.done
}

func (f *Followed) status() string { return f.now.Load().Snapshot(0, 0).Outcome.Status }

func (f *Followed) read() error {
	s, err := Open(f.path)
	if err == nil {
		f.now.Store(s)
	}
	return err
}

// follow reads the file until the run has ended. A run that seems killed may be one whose machine
// slept, so its file is looked at further, and read when it has changed. What cannot be read now is
// tried again.
func (f *Followed) follow(ctx context.Context, spent time.Duration) {
	defer close(f.done)
	written := f.written()
	for {
		switch f.status() {
		case "running", "killed":
		default:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(followEvery, followShare*spent)):
		}
		now := f.written()
		if now == written && !f.Running() {
			continue
		}
		begun := time.Now()
		if f.read() == nil {
			written = now
		}
		spent = time.Since(begun)
	}
}

// written tells one state of the file, and of the log beside it, from another.
func (f *Followed) written() (state [2]struct {
	at   time.Time
	size int64
}) {
	for i, end := range []string{"", "-wal"} {
		if info, err := os.Stat(f.path + end); err == nil {
			state[i].at, state[i].size = info.ModTime(), info.Size()
		}
	}
	return state
}
