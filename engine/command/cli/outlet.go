package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// unreadAfter is how long a run that was told to end waits for a terminal or pipe that nobody
// reads.
const unreadAfter = time.Second

// errUnread is the error of a write that nobody reads.
var errUnread = errors.New("nobody reads the output")

// Outlet writes to w. A write waits for its reader until ctx ends, and then for at most
// unreadAfter; after that all writes fail.
type Outlet struct {
	ctx   context.Context
	w     io.Writer
	mu    sync.Mutex
	stuck bool
}

// NewOutlet returns an Outlet that writes to w.
func NewOutlet(ctx context.Context, w io.Writer) *Outlet { return &Outlet{ctx: ctx, w: w} }

// Fd returns the descriptor of the file, or one that no file has.
func (o *Outlet) Fd() uintptr {
	if f, ok := o.w.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

func (o *Outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stuck {
		return 0, errUnread
	}
	b = bytes.Clone(b) // the write may outlive this call
	var n int
	var err error
	if !InTime(o.ctx, unreadAfter, func() { n, err = o.w.Write(b) }) {
		o.stuck = true
		return 0, errUnread
	}
	return n, err
}

// InTime runs f and reports whether it ended. It waits for f until ctx ends, and then for limit.
// After that f goes on in a goroutine of its own, and the caller must not touch what f writes to.
func InTime(ctx context.Context, limit time.Duration, f func()) bool {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	ended := func(p any) bool {
		if p != nil {
			panic(p) // in the goroutine that called InTime
		}
		return true
	}
	select {
	case p := <-done:
		return ended(p)
	case <-ctx.Done():
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case p := <-done:
		return ended(p)
	case <-late.C:
		return false
	}
}

// Briefly runs f and waits for at most unreadAfter. Nothing may depend on f having ended.
func Briefly(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	InTime(now, unreadAfter, f)
	return nil
}
