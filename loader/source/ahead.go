package source

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"
)

// Block is how many bytes of an object are requested at a time when it is read forwards. A
// block takes 50 ms at 40 MB/s, so a request's latency is no longer than its transfer.
const Block = 2 << 20

// ahead reads an object forwards, block by block. While one block is read, the next ones are
// under way.
type ahead struct {
	o      *object
	ctx    context.Context // of what is under way between two reads
	cancel context.CancelFunc
	wg     sync.WaitGroup
	off    int64 // of the byte that is read next
	depth  int   // blocks beyond the one that is read
	queue  []*block
	jumped bool // the last move was a skip, so the block after the next may not be wanted
	waited int64
}

// block is a piece of an object, under way or already loaded.
type block struct {
	off    int64
	b      []byte
	done   chan struct{}
	waited int64 // ns of took until the store began to send
	ended  time.Time
	took   time.Duration
	err    error
}

func newAhead(ctx context.Context, o *object, off int64) *ahead {
	a := &ahead{o: o, off: off, depth: 1}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

func (a *ahead) Ahead(requests int) { a.depth = max(0, requests) }
func (a *ahead) Waited() int64      { return a.waited }

// Close cancels the requests under way.
func (a *ahead) Close() error {
	a.cancel()
	a.wg.Wait()
	return nil
}

func (a *ahead) Skip(n int64) error {
	a.off += n
	if last := len(a.queue) - 1; last < 0 || a.off >= a.queue[last].end() {
		a.jumped = true
	}
	return nil
}

func (b *block) end() int64 { return b.off + int64(len(b.b)) }

func (a *ahead) Read(p []byte) (int, error) {
	size := a.o.entry.Size
	if a.off >= size {
		return 0, io.EOF
	}
	for len(a.queue) > 0 && a.queue[0].end() <= a.off {
		a.queue = a.queue[1:]
	}
	next, depth := a.off/Block*Block, a.depth
	if n := len(a.queue); n > 0 {
		next, a.jumped = a.queue[n-1].end(), false
	} else if a.jumped {
		depth = 0
	}
	for len(a.queue) <= depth && next < size {
		b := &block{off: next, b: make([]byte, min(Block, size-next)), done: make(chan struct{})}
		a.queue = append(a.queue, b)
		next = b.end()
		a.wg.Go(func() { a.load(b) })
	}
	a.jumped = false
	b := a.queue[0]
	if err := a.wait(b); err != nil {
		a.queue = nil // the next read tries again
		return 0, err
	}
	n := copy(p, b.b[a.off-b.off:])
	a.off += int64(n)
	return n, nil
}

// load fetches a block.
func (a *ahead) load(b *block) {
	began := time.Now()
	defer close(b.done)
	defer func() {
		if p := recover(); p != nil {
			b.err = fmt.Errorf("read ahead: panic: %v\n%s", p, debug.Stack())
		}
		b.ended = time.Now()
		b.took = b.ended.Sub(began)
	}()
	b.err = a.o.read(a.ctx, b.b, b.off, &b.waited)
}

// wait waits for a block. The time before the block's first byte counts as waited. A block that
// came in one answer waited at its beginning.
func (a *ahead) wait(b *block) error {
	select {
	case <-b.done:
		return b.err
	default:
	}
	began := time.Now()
	<-b.done // its requests end with the context
	first := b.ended.Add(time.Duration(b.waited) - b.took)
	a.waited += int64(max(0, min(first.Sub(began), b.ended.Sub(began))))
	return b.err
}
