// Package source reads and writes files of this machine (paths, file://) and objects in a store
// (s3://, azblob://, abfss://) in one way.
//
// Some failures of a store pass: 503 and its like, a reset connection, a body that ends early,
// silence. The request is then made again after a growing pause, as often as Options say, and
// is counted. A read resumes at the byte that it had reached. Credentials come from where the
// service's own tools look for them. No address, error or count contains them.
package source

import (
	"context"
	"hash/fnv"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"dev.gpustall/loader"
)

// Entry is a file, an object or a folder of either.
type Entry struct {
	Name    string // below the folder that was listed
	Dir     bool
	Link    bool // a local link, to anything
	Size    int64
	Changed time.Time
	Version string // of an object: its ETag
}

// Stamp tells one version of a file from another, as far as is known.
func (e *Entry) Stamp() int64 {
	if e.Version == "" {
		return e.Changed.UnixNano()
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, e.Version) // a hash takes anything
	return int64(h.Sum64())
}

// File is a file or an object that is read. Its methods are safe for concurrent use.
type File interface {
	Entry() Entry
	// ReadAt does what that of io.ReaderAt does. It also returns how much of its time, in ns,
	// passed before the store began to send. For a file of this machine that is 0.
	ReadAt(ctx context.Context, p []byte, off int64) (n int, waited int64, err error)
	// Stream reads it forwards, from a place on.
	Stream(ctx context.Context, off int64) Stream
	io.Closer
}

// Stream reads forwards. One goroutine uses it at a time.
type Stream interface {
	io.Reader
	// Skip leaves out so many bytes.
	Skip(n int64) error
	// Ahead sets how many requests are under way beyond what is being read.
	Ahead(requests int)
	// Waited returns how long, in ns, reads have waited for the store to begin to send.
	Waited() int64
	io.Closer
}

// Options say how stores are used.
type Options struct {
	Retry Retry
	Cache *Cache // keeps what was read from stores; may be nil
}

// Files reads and writes what paths and addresses name. A nil *Files works too, with the usual
// options and without counts.
type Files struct {
	options Options
	counts  counts

	mu     sync.Mutex
	stores map[address]*bucket
}

// New returns Files with these options. The caller closes them.
func New(o Options) *Files { return &Files{options: o, stores: map[address]*bucket{}} }

var usual = sync.OnceValue(func() *Files { return New(Options{}) })

func (f *Files) or() *Files {
	if f == nil {
		return usual()
	}
	return f
}

// remote returns the bucket of an address, and the key in it.
func (f *Files) remote(p string) (*bucket, address, error) {
	a, err := parse(p)
	if err != nil {
		return nil, a, err
	}
	f = f.or()
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.stores[a.bucketOf()]
	if b == nil {
		if b, err = f.dial(a); err != nil {
			return nil, a, err
		}
		f.stores[a.bucketOf()] = b
	}
	return b, a, nil
}

// dial makes the client of a bucket, without a request.
func (f *Files) dial(a address) (*bucket, error) {
	open := newS3
	if a.scheme != schemeS3 {
		open = newAzure
	}
	client := newClient(f.options.Retry, &f.counts)
	s, err := open(client, a)
	if err != nil {
		return nil, blame(err, "open", a.bucketOf().String())
	}
	return &bucket{store: s, client: client, files: f, at: a.bucketOf()}, nil
}

// Stat describes what a path names. Its error wraps fs.ErrNotExist if there is nothing.
func (f *Files) Stat(ctx context.Context, p string) (Entry, error) {
	if Remote(p) {
		b, a, err := f.remote(p)
		if err != nil {
			return Entry{}, err
		}
		return b.stat(ctx, a)
	}
	st, err := os.Stat(local(p)) // follows links
	if err != nil {
		return Entry{}, err
	}
	return entryOf(st), nil
}

// IsDir reports whether a path names a folder.
func (f *Files) IsDir(ctx context.Context, p string) bool {
	e, err := f.Stat(ctx, p)
	return err == nil && e.Dir
}

// List returns what a folder holds, sorted by name.
func (f *Files) List(ctx context.Context, p string) ([]Entry, error) {
	if Remote(p) {
		b, a, err := f.remote(p)
		if err != nil {
			return nil, err
		}
		return b.list(ctx, a, false)
	}
	return listLocal(local(p))
}

// Some returns the names of a few files or folders in a folder, or none if it cannot be listed.
func (f *Files) Some(ctx context.Context, p string, few int) (names []string) {
	if !Remote(p) {
		dir, err := os.Open(local(p))
		if err != nil {
			return nil
		}
		defer dir.Close()
		names, _ = dir.Readdirnames(few)
		return names
	}
	b, a, err := f.remote(p)
	if err != nil {
		return nil
	}
	var page []Entry
	_ = b.once(ctx, "list", a, func(ctx context.Context) (err error) {
		page, _, err = b.page(ctx, folder(a.key), "", false)
		return err
	})
	for _, e := range page[:min(few, len(page))] {
		names = append(names, path.Base(e.Name))
	}
	return names
}

// Walk returns everything in a folder of a store and in the folders below it, sorted by name,
// with names below p. Local folders, where links may lead in circles, are listed one by one.
func (f *Files) Walk(ctx context.Context, p string) ([]Entry, error) {
	b, a, err := f.remote(p)
	if err != nil {
		return nil, err
	}
	return b.list(ctx, a, true)
}

// Open opens a file for reading.
func (f *Files) Open(ctx context.Context, p string) (File, error) {
	if Remote(p) {
		b, a, err := f.remote(p)
		if err != nil {
			return nil, err
		}
		return b.open(ctx, a)
	}
	file, st, err := loader.Open(local(p))
	if err != nil {
		return nil, err
	}
	return &localFile{file, entryOf(st)}, nil
}

// Known opens a file that was listed or looked at before. It makes no request for an object,
// and each read then requires that version.
func (f *Files) Known(ctx context.Context, p string, e Entry) (File, error) {
	if Remote(p) {
		b, a, err := f.remote(p)
		if err != nil {
			return nil, err
		}
		return &object{b, a, e}, nil
	}
	return f.Open(ctx, p)
}

// ReadAll reads a file of at most so many bytes.
func (f *Files) ReadAll(ctx context.Context, p string, most int64) ([]byte, error) {
	file, err := f.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	e := file.Entry()
	b := make([]byte, min(e.Size, most))
	n, _, err := file.ReadAt(ctx, b, 0)
	if n == len(b) {
		err = nil
	}
	return b[:n], err
}

// Trouble says why the cache has stopped working, which does not end the run. It is empty if
// all works.
func (f *Files) Trouble() string {
	if f == nil || f.options.Cache == nil {
		return ""
	}
	return f.options.Cache.trouble()
}

// Close closes the connections.
func (f *Files) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.stores {
		b.client.CloseIdleConnections()
	}
	clear(f.stores)
}
