package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"dev.gpustall/engine/base/errs"
)

// Writer writes a file or an object, which becomes visible as a whole at Commit. Call either
// Commit or Abort, once. Another Abort does no harm.
type Writer interface {
	io.Writer
	Commit() error
	Abort()
}

// Create begins a file or an object.
func (f *Files) Create(ctx context.Context, p string) (Writer, error) {
	if !Remote(p) {
		return createLocal(local(p))
	}
	b, a, err := f.remote(p)
	if err != nil {
		return nil, err
	}
	w := &upload{b: b, at: a, room: make(chan struct{}, partsAtOnce)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w, nil
}

// WriteAll writes a file or an object as a whole.
func (f *Files) WriteAll(ctx context.Context, p string, data []byte) error {
	w, err := f.Create(ctx, p)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		w.Abort()
		return err
	}
	return w.Commit()
}

// Remove removes a file or an object; a missing one is not an error.
func (f *Files) Remove(ctx context.Context, p string) error {
	if Remote(p) {
		b, a, err := f.remote(p)
		if err != nil {
			return err
		}
		err = b.once(ctx, "remove", a, func(ctx context.Context) error { return b.remove(ctx, a.key) })
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.Remove(local(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirAll makes a folder if one is needed; a store needs none.
func (f *Files) MkdirAll(p string) error {
	if Remote(p) {
		return nil
	}
	return os.MkdirAll(local(p), 0o755)
}

// Parts of an upload. S3 accepts 10,000 of them, so they grow: the first thousand have
// firstPart bytes, and each further thousand twice as many as the one before.
const (
	firstPart   = 8 << 20
	partsAtOnce = 4
)

func partSize(n int) int { return firstPart << ((n - 1) / 1000) }

// upload writes an object in parts, each with its checksum. An object that fits into a single
// part is put at once.
type upload struct {
	b      *bucket
	at     address
	ctx    context.Context // from Create to Commit
	cancel context.CancelCauseFunc
	id     string
	buf    bytes.Buffer
	size   int64
	wg     sync.WaitGroup
	room   chan struct{}

	mu   sync.Mutex
	tags []string
}

func (w *upload) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		if w.buf.Len() == partSize(len(w.tags)+1) { // more follows
			if err := w.send(); err != nil {
				return n, err
			}
		}
		k := min(len(p), partSize(len(w.tags)+1)-w.buf.Len())
		w.buf.Write(p[:k])
		p, n, w.size = p[k:], n+k, w.size+int64(k)
	}
	return n, nil
}

// send uploads the current part, while earlier ones are still under way.
func (w *upload) send() error {
	if w.id == "" {
		err := w.b.once(w.ctx, "write", w.at, func(ctx context.Context) (err error) {
			w.id, err = w.b.begin(ctx, w.at.key)
			return err
		})
		if err != nil {
			return err
		}
	}
	select {
	case w.room <- struct{}{}:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	part := bytes.Clone(w.buf.Bytes())
	w.buf.Reset()
	w.mu.Lock()
	w.tags = append(w.tags, "")
	n := len(w.tags)
	w.mu.Unlock()
	w.wg.Go(func() {
		defer func() { <-w.room }()
		defer func() {
			if p := recover(); p != nil {
				w.cancel(fmt.Errorf("upload: panic: %v", p))
			}
		}()
		err := w.b.send(w.ctx, "write", w.at, int64(len(part)), func(ctx context.Context) error {
			tag, err := w.b.part(ctx, w.at.key, w.id, n, part)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tags[n-1] = tag
			return err
		})
		if err != nil {
			w.cancel(err)
			return
		}
		w.b.files.counts.written.Add(int64(len(part)))
	})
	return nil
}

// Commit makes the object visible, and checks that it is what was written.
func (w *upload) Commit() error {
	err := w.commit()
	if err != nil {
		w.Abort()
		return err
	}
	w.cancel(nil)
	return nil
}

func (w *upload) commit() error {
	if w.id == "" {
		err := w.b.send(w.ctx, "write", w.at, w.size, func(ctx context.Context) error { return w.b.put(ctx, w.at.key, w.buf.Bytes()) })
		if err == nil {
			w.b.files.counts.written.Add(w.size)
		}
		return err
	}
	if err := w.send(); err != nil {
		return err
	}
	w.wg.Wait()
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	err := w.b.once(w.ctx, "write", w.at, func(ctx context.Context) error { return w.b.commit(ctx, w.at.key, w.id, w.tags) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the object with that name is an older one
	}
	e, stat := w.b.stat(w.ctx, w.at)
	switch {
	case stat == nil && e.Size == w.size: // the upload is gone, so it was committed and the answer was lost
		return nil
	case err == nil && stat == nil:
		return errs.New("write", w.at.String(), fmt.Sprintf("the store has %d of %d bytes", e.Size, w.size), "run it again")
	}
	return errors.Join(err, stat)
}

// Abort discards what was uploaded, even if the context has ended. A second one does nothing.
func (w *upload) Abort() {
	w.cancel(context.Canceled)
	w.wg.Wait()
	if w.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.b.files.options.Retry.silence())
	defer cancel()
	_ = w.b.abort(ctx, w.at.key, w.id) // stores forget parts that are never put together
	w.id = ""
}
