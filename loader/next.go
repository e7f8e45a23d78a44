package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dev.gpustall/engine/base/errs"
)

// Next returns the next batch, which is the caller's until its Release, or
//
//   - ErrEnd after the last epoch,
//   - ctx's error as it is when ctx ends first, also while loading inline,
//   - an error wrapping ErrTimeout when the timeout knob runs out,
//   - a *SampleError when a sample of the batch could not be loaded,
//   - ErrClosed after Close,
//   - the panic of a worker that no sample is to blame for, or an epoch of which every
//     sample was skipped, for good.
//
// But for the last, none of them loses a batch: the next call goes on where this one ended,
// and after a SampleError has the batch loaded again.
//
// The caller releases batches so that it holds at most Options.Hold-1 when it
// calls Next. One that holds more waits until another goroutine releases one.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inNext {
		return nil, errors.New("loader: next: another goroutine is in Next; call it from one at a time")
	}
	l.inNext = true
	defer func() {
		l.inNext = false
		if l.closed {
			l.nextDone.Broadcast()
		}
	}()
	l.retry()
	for start := (time.Time{}); ; {
		if l.closed {
			return nil, fmt.Errorf("loader: next: %w", ErrClosed)
		}
		l.turn()
		if l.broken != nil {
			return nil, l.broken
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if l.epochs > 0 && l.current >= l.epochs {
			return nil, ErrEnd
		}
		if s := l.pick(); s != nil {
			if s.err != nil {
				err := s.err
				s.state, s.err, l.failed = redo, nil, s
				l.sampleQueue()
				return nil, err
			}
			l.flight.remove(s)
			l.sampleQueue()
			if s.N == 0 {
				l.discard(s)
				continue
			}
			return l.deliver(s), nil
		}
		if s := l.serveKept(); s != nil {
			return l.deliver(s), nil
		}
		if l.opened == l.current && l.openable() {
			l.open(l.inline.worker)
			continue
		}
		if l.k.NumWorkers == 0 && !l.inline.busy {
			// A limit of one: what workers still have in flight comes first.
			if s, _ := l.take(1); s != nil {
				l.loadInline(s)
			}
		}
		if start.IsZero() {
			start = time.Now()
		}
		if err := l.wait(ctx, start); err != nil {
			return nil, err
		}
	}
}

// retry has the batch whose error was returned last loaded again.
func (l *Loader) retry() {
	if s := l.failed; s != nil {
		l.failed = nil
		l.redo.push(s)
		l.reconcile()
		l.wakeWorker()
	}
}

// wait blocks until something may have changed. start is when Next began to wait,
// for the timeout, which keeps to the timer's clock.
func (l *Loader) wait(ctx context.Context, start time.Time) error {
	var timeout <-chan time.Time
	if limit := l.k.Timeout; limit > 0 {
		rest := limit - time.Since(start)
		if rest <= 0 {
			return l.timedOut()
		}
		l.timer.Reset(rest)
		timeout = l.timer.C
	}
	l.waiting = true
	l.mu.Unlock()
	select {
	case <-l.signal:
	case <-timeout:
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.waiting = false
	l.timer.Stop()
	return nil
}

func (l *Loader) timedOut() error {
	if l.held >= len(l.slots) {
		return errs.New("wait for", "a batch", fmt.Sprintf("none within timeout=%v, because the caller holds all %d slots", l.k.Timeout, l.held),
			"release batches earlier or raise Options.Hold").Because(ErrTimeout)
	}
	return errs.New("wait for", "a batch", fmt.Sprintf("none within timeout=%v from num_workers=%d, %d loading (%s)", l.k.Timeout, l.k.NumWorkers, l.building, l.at()),
		"raise num_workers or timeout, or lower batch_size").Because(ErrTimeout)
}
