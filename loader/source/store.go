package source

import (
	"context"
	"crypto/md5" // the checksum of a request's body; nothing is kept secret by it
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// store is the part of a service that is used. Each call is one request, without a retry.
type store interface {
	// head describes an object.
	head(ctx context.Context, key string) (Entry, error)
	// page returns the next part of a listing by key, from a token on. If flat, it has all keys
	// that begin with prefix. Otherwise it has those up to the next slash.
	page(ctx context.Context, prefix, token string, flat bool) (entries []Entry, next string, err error)
	// get returns n bytes of an object from off on, if it still has that version.
	get(ctx context.Context, key string, off, n int64, version string) (io.ReadCloser, error)
	// put writes an object, which becomes visible as a whole or not at all.
	put(ctx context.Context, key string, b []byte) error
	// begin, part, commit and abort write an object in parts, counted from 1.
	begin(ctx context.Context, key string) (upload string, err error)
	part(ctx context.Context, key, upload string, n int, b []byte) (tag string, err error)
	commit(ctx context.Context, key, upload string, tags []string) error
	abort(ctx context.Context, key, upload string) error
	remove(ctx context.Context, key string) error
}

// md5Of returns the checksum with which services compare the body of a request.
func md5Of(b []byte) []byte {
	s := md5.Sum(b) // see the import
	return s[:]
}

// bucket is a store's bucket, with retries.
type bucket struct {
	store
	client *http.Client
	files  *Files
	at     address
}

// once does what retry does for a request with a short answer.
func (b *bucket) once(ctx context.Context, op string, a address, request func(ctx context.Context) error) error {
	return b.send(ctx, op, a, 0, request)
}

// slowest is the least speed of a network in bytes a second. An upload has partsAtOnce parts
// under way, so this is 2 Mbit/s.
const slowest = 64 << 10

// send does what once does for a request with a body of so many bytes.
func (b *bucket) send(ctx context.Context, op string, a address, body int64, request func(ctx context.Context) error) error {
	return b.retry(ctx, op, a, func(ctx context.Context) (bool, error) {
		limit := 2*b.files.options.Retry.silence() + time.Duration(body/slowest)*time.Second
		ctx, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
		defer cancel()
		err := request(ctx)
		if err != nil && errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return false, err
	})
}

// stat describes an object. If there is none with that key, it describes the folder that the
// keys below it make.
func (b *bucket) stat(ctx context.Context, a address) (e Entry, err error) {
	if a.key != "" {
		err = b.once(ctx, "find", a, func(ctx context.Context) error {
			e, err = b.head(ctx, a.key)
			return err
		})
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			e.Name = path.Base(a.key)
			return e, err
		}
	}
	var below []Entry
	missing := err
	err = b.once(ctx, "find", a, func(ctx context.Context) error {
		below, _, err = b.page(ctx, folder(a.key), "", true)
		return err
	})
	if err == nil && len(below) == 0 && a.key != "" {
		err = missing
	}
	return Entry{Name: path.Base(a.key), Dir: true}, err
}

// folder returns a key as the prefix of the keys below it.
func folder(key string) string {
	if key == "" {
		return ""
	}
	return key + "/"
}

// list returns what lies below a key. If flat, it includes everything further below.
func (b *bucket) list(ctx context.Context, a address, flat bool) (all []Entry, err error) {
	prefix, token := folder(a.key), ""
	for {
		var page []Entry
		var next string
		err := b.once(ctx, "list", a, func(ctx context.Context) (err error) {
			page, next, err = b.page(ctx, prefix, token, flat)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			e.Name = strings.TrimSuffix(strings.TrimPrefix(e.Name, prefix), "/")
			if e.Name != "" { // an empty object that some tools make for a folder
				all = append(all, e)
			}
		}
		if next == "" {
			break
		}
		token = next
	}
	slices.SortFunc(all, func(x, y Entry) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

func (b *bucket) open(ctx context.Context, a address) (File, error) {
	o := &object{b: b, at: a}
	err := b.once(ctx, "open", a, func(ctx context.Context) (err error) {
		o.entry, err = b.head(ctx, a.key)
		return err
	})
	o.entry.Name = path.Base(a.key)
	return o, err
}

// object is an object that is read.
type object struct {
	b     *bucket
	at    address
	entry Entry
}

func (o *object) Entry() Entry { return o.entry }
func (o *object) Close() error { return nil }

func (o *object) ReadAt(ctx context.Context, p []byte, off int64) (n int, waited int64, err error) {
	n = int(max(0, min(int64(len(p)), o.entry.Size-off)))
	if n == 0 && len(p) > 0 {
		return 0, 0, io.EOF
	}
	if err = o.read(ctx, p[:n], off, &waited); err != nil {
		return 0, waited, err
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, waited, err
}

// read fills p, from the cache or from the store.
func (o *object) read(ctx context.Context, p []byte, off int64, waited *int64) error {
	if o.b.files.options.Cache == nil || o.entry.Version == "" { // without a version the block may be out of date
		return o.fetch(ctx, p, off, waited)
	}
	return o.cached(ctx, p, off, waited)
}

// fetch fills p from the store. It adds to waited the time before an answer's first byte, and
// the time lost after an answer that broke off.
func (o *object) fetch(ctx context.Context, p []byte, off int64, waited *int64) error {
	got := 0
	since := time.Now() // nothing has come yet
	err := o.b.retry(ctx, "read", o.at, func(ctx context.Context) (further bool, err error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		quiet := o.b.files.options.Retry.silence()
		watch := time.AfterFunc(quiet, func() { cancel(errSilent) })
		defer watch.Stop()
		defer func() {
			if err != nil && errors.Is(context.Cause(ctx), errSilent) {
				err = errSilent
			}
		}()
		body, err := o.b.get(ctx, o.at.key, off+int64(got), int64(len(p)-got), o.entry.Version)
		if err != nil {
			return false, err
		}
		defer body.Close()
		for first := true; got < len(p); {
			n, err := body.Read(p[got:])
			if n > 0 {
				if got, further = got+n, true; first {
					*waited += int64(time.Since(since))
					first = false
				}
				since = time.Now()
				watch.Reset(quiet)
				o.b.files.counts.read.Add(int64(n))
			}
			if err != nil && got < len(p) {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return further, err
			}
		}
		return true, nil
	})
	if err != nil {
		*waited += int64(time.Since(since))
	}
	return err
}

func (o *object) Stream(ctx context.Context, off int64) Stream { return newAhead(ctx, o, off) }
