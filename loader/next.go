package loader

import (
	"context"
	"fmt"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// Next returns the next batch, which is the caller's until its Release, or
//
//   - ErrEnd after the last epoch,
//   - ctx's error as it is when ctx ends first, also while loading inline,
//   - an error wrapping ErrTimeout when the timeout knob runs out,
//   - a *SampleError when a sample of the batch could not be loaded,
//   - ErrClosed after Close,
//   - from then on the same error, after a worker's panic for which no sample is to
//     blame, or after an epoch whose samples were all skipped.
//
// Except for the last, none of them loses a batch. The next call goes on where this one ended,
// and after a SampleError the batch is loaded again.
//
// The caller must hold at most Options.Hold-1 batches when it calls Next. If it holds
// more, Next waits until another goroutine releases one.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.consumer.enter(); err != nil {
		return nil, err
	}
	defer l.consumer.leave()
	if l.queue.retry() {
		l.reconcile()
		l.wakeWorker()
	}
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
		if l.schedule.over() {
			return nil, ErrEnd
		}
		if s := l.queue.next(l.schedule.current, l.knobs.InOrder); s != nil {
			if s.err != nil {
				err := l.queue.fail(s)
				l.queue.record(&l.knobs)
				return nil, err
			}
			l.queue.flight.remove(s)
			l.queue.record(&l.knobs)
			if s.N == 0 {
				l.discard(s)
				continue
			}
			return l.deliver(s), nil
		}
		if s := l.serveKept(); s != nil {
			return l.deliver(s), nil
		}
		if l.schedule.delivering() == nil && l.schedule.openable(&l.knobs) {
			l.open(l.pool.inline.worker)
			continue
		}
		if l.knobs.NumWorkers == 0 && !l.pool.inline.busy {
			// The limit is one, because batches that workers still have in flight come
			// first.
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

// deliver makes s the caller's.
func (l *Loader) deliver(s *slot) *Batch {
	l.schedule.of(s).deliver(s)
	l.slots.hand(s)
	l.wakeWorker()
	return &s.Batch
}

// discard drops, in its turn, a batch of which every sample was skipped.
func (l *Loader) discard(s *slot) {
	l.schedule.of(s).pending--
	l.slots.put(s)
	l.trim()
	l.wakeWorker()
}

// serveKept returns a kept batch of the ceiling instead of loading the next one, or nil.
func (l *Loader) serveKept() *slot {
	e := l.schedule.delivering()
	if e == nil || e.closed || l.queue.flight.n > 0 || l.ceiling.batches.n == 0 || !l.ceiling.serves(e, &l.knobs) {
		return nil
	}
	s := l.ceiling.batches.pop()
	e.cut(s, l.knobs.BatchSize, l.knobs.DropLast)
	l.schedule.number(s, l.schedule.current)
	s.Flags, s.Ready = trace.FlagCeiling, l.clock.Now()
	return s
}

// wait blocks until something may have changed. start is when Next began to wait. The timeout
// is measured with the timer's clock.
func (l *Loader) wait(ctx context.Context, start time.Time) error {
	var rest time.Duration // 0: no limit
	if limit := l.knobs.Timeout; limit > 0 {
		if rest = limit - time.Since(start); rest <= 0 {
			return l.timedOut()
		}
	}
	l.consumer.wait(ctx, rest)
	return nil
}

func (l *Loader) timedOut() error {
	k := &l.knobs
	if l.slots.exhausted() {
		return errs.New("wait for", "a batch", fmt.Sprintf("none within timeout=%v, because the caller holds all %d slots", k.Timeout, l.slots.held),
			"release batches earlier or raise Options.Hold").Because(ErrTimeout)
	}
	return errs.New("wait for", "a batch", fmt.Sprintf("none within timeout=%v from num_workers=%d, %d loading (%s)", k.Timeout, k.NumWorkers, l.pool.building, l.queue.at(l.input.info.Name)),
		"raise num_workers or timeout, or lower batch_size").Because(ErrTimeout)
}
