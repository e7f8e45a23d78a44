package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dev.gpustall/loader/source"
	"dev.gpustall/loader/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rootS3 = "s3://" + sourcetest.Bucket

// quick is the Retry of tests. On a busy machine it waits for late answers.
var quick = source.Retry{Attempts: 6, First: time.Millisecond, Silence: 10 * time.Minute}

func files(t *testing.T, o source.Options) *source.Files {
	t.Helper()
	if o.Retry == (source.Retry{}) {
		o.Retry = quick
	}
	f := source.New(o)
	t.Cleanup(f.Close)
	return f
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1, byte(n)}).Read(b) // it does not fail
	return b
}

// TestStores: the same calls have the same results for a local folder and for a store.
func TestStores(t *testing.T) {
	sourcetest.NewS3(t)
	dir := t.TempDir()
	for _, root := range []string{dir, "file://" + dir, rootS3 + "/some where"} {
		t.Run(root[:3], func(t *testing.T) { exercise(t, files(t, source.Options{}), root) })
	}
}

func exercise(t *testing.T, f *source.Files, root string) {
	ctx := t.Context()
	small, large := noise(1000), noise(19<<20) // three parts, and ten blocks
	for _, put := range []struct {
		name string
		b    []byte
	}{{"a/small", small}, {"a/b/large", large}, {"c", nil}} {
		p := source.Join(root, put.name)
		folder, _ := source.Split(p)
		if err := errors.Join(f.MkdirAll(folder), f.WriteAll(ctx, p, put.b)); err != nil {
			t.Fatal(err)
		}
		if e, err := f.Stat(ctx, p); err != nil || e.Dir || e.Size != int64(len(put.b)) {
			t.Errorf("%s is %+v, %v", p, e, err)
		}
	}
	list, err := f.List(ctx, source.Join(root, "a"))
	if err != nil || len(list) != 2 || list[0].Name != "b" || !list[0].Dir || list[1].Name != "small" || list[1].Dir {
		t.Errorf("a holds %+v, %v", list, err)
	}
	if !f.IsDir(ctx, source.Join(root, "a/b")) || f.IsDir(ctx, source.Join(root, "a/none")) {
		t.Error("what is a folder is not known")
	}
	p := source.Join(root, "a/b/large")
	file, err := f.Open(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	part := make([]byte, 70_000)
	for _, at := range []int64{0, source.Block - 1000, int64(len(large) - 70_000)} {
		if n, _, err := file.ReadAt(ctx, part, at); n != len(part) || err != nil || !bytes.Equal(part, large[at:at+70_000]) {
			t.Errorf("at %d: %d bytes, %v", at, n, err)
		}
	}
	if n, _, err := file.ReadAt(ctx, part, int64(len(large)-10)); n != 10 || !errors.Is(err, io.EOF) {
		t.Errorf("beyond the end: %d bytes, %v", n, err)
	}
	for _, depth := range []int{0, 1, 5} {
		s := file.Stream(ctx, 100)
		s.Ahead(depth)
		got, err := io.ReadAll(io.LimitReader(s, 5000))
		err = errors.Join(err, s.Skip(source.Block+17), s.Skip(3))
		rest, err2 := io.ReadAll(s)
		if err = errors.Join(err, err2, s.Close()); err != nil || !bytes.Equal(append(got, rest...), append(large[100:5100:5100], large[5120+source.Block:]...)) {
			t.Errorf("the stream brought other bytes, %v", err)
		}
	}
	if err := errors.Join(f.Remove(ctx, p), f.Remove(ctx, p)); err != nil {
		t.Error(err)
	}
	for _, op := range []func(string) error{
		func(p string) error { _, err := f.Stat(ctx, p); return err },
		func(p string) error { _, err := f.Open(ctx, p); return err },
	} {
		if err := op(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of what was removed: %v", err)
		}
	}
}

// TestFaults: whatever fails in a store for a while, the bytes are right, and each repeated
// request is counted.
func TestFaults(t *testing.T) { faults(t, sourcetest.NewS3(t), rootS3) }

// faults makes a server fail. Requests beyond those of a read without faults were repeated,
// also if a busy machine seems to be a silent server.
func faults(t *testing.T, s *sourcetest.Server, root string) {
	f := files(t, source.Options{})
	hasty := source.Retry{Attempts: 1000, First: time.Millisecond, Silence: 300 * time.Millisecond}
	p, want := root+"/x", noise(5*source.Block+123)
	if err := f.WriteAll(t.Context(), p, want); err != nil {
		t.Fatal(err)
	}
	read := func(t *testing.T, f *source.Files) {
		t.Helper()
		file, err := f.Open(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		stream := file.Stream(t.Context(), 0)
		stream.Ahead(3)
		got, err := io.ReadAll(stream)
		if err = errors.Join(err, stream.Close()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
		}
	}
	s.Inject(nil)
	read(t, f)
	usual, _ := s.Requests()
	for name, fault := range map[string]sourcetest.Fault{
		"503": sourcetest.Busy, "reset": sourcetest.Reset, "truncated": sourcetest.Truncated, "silent": sourcetest.Silent,
	} {
		t.Run(name, func(t *testing.T) {
			f, every := f, 3
			if fault == sourcetest.Silent {
				f, every = files(t, source.Options{Retry: hasty}), 6
			}
			before := f.Counts()
			s.Inject(func(n int, _ *http.Request) (sourcetest.Fault, time.Duration) {
				if n%every == 1 {
					return fault, time.Millisecond
				}
				return sourcetest.None, 0
			})
			read(t, f)
			all, retries := 0, int(f.Counts().Retries-before.Retries)
			for range 1000 { // a request that was given up may still be on its way to the server
				if all, _ = s.Requests(); all >= usual+retries {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			s.Inject(nil)
			if retries == 0 || all != usual+retries {
				t.Errorf("%d requests where %d are usual, %d retries were counted", all, usual, retries)
			}
		})
	}
	t.Run("for good", func(t *testing.T) {
		s.Inject(func(int, *http.Request) (sourcetest.Fault, time.Duration) { return sourcetest.Busy, 0 })
		defer s.Inject(nil)
		_, err := f.Open(t.Context(), p)
		for _, want := range []string{"open " + p + ": ", "503", "6 times", "; "} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		s.Stop()
		defer s.Start(t)
		patient := files(t, source.Options{Retry: source.Retry{First: time.Hour}})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := patient.Open(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// TestCodes: errors tell a store's own code, and what to do about it, even for a HEAD, whose answer
// has no code with S3.
func TestCodes(t *testing.T) {
	sourcetest.NewS3(t) // for its credentials
	var status int
	var code string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { sourcetest.Refuse(w, status, code) }))
	defer s.Close()
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	t.Setenv("AZURE_STORAGE_ACCOUNT", sourcetest.Account)
	t.Setenv("AZURE_STORAGE_KEY", sourcetest.Key)
	t.Setenv("AZURE_STORAGE_SERVICE_ENDPOINT", s.URL)
	f := files(t, source.Options{Retry: source.Retry{First: time.Millisecond}})
	for _, c := range []struct {
		root   string
		status int
		code   string
		hint   string
		listed bool // only a List tells the code: a HEAD is not asked for again
	}{
		{rootS3, 503, "SlowDown", "lower num_workers", true},
		{rootS3, 400, "ExpiredToken", "log in again", false},
		{rootS3, 301, "PermanentRedirect", "set AWS_REGION", false},
		{rootS3, 403, "AccessDenied", "s3:GetObject", false},
		{rootS3, 403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY", false},
		{rootS3, 403, "RequestTimeTooSkewed", "this machine's clock", false},
		{rootS3, 404, "NoSuchBucket", "the bucket's name", true},
		{rootS3, 400, "RequestTimeout", "10 times in a row", true},
		{rootAzure, 503, "ServerBusy", "lower num_workers", false},
		{rootAzure, 403, "AuthenticationFailed", "AZURE_STORAGE_KEY", false},
		{rootAzure, 403, "AuthorizationPermissionMismatch", "Storage Blob Data Reader", false},
		{rootAzure, 404, "ContainerNotFound", "the container's name", false},
		{rootAzure, 409, "PublicAccessNotPermitted", "az login", false},
	} {
		t.Run(c.code, func(t *testing.T) {
			status, code = c.status, c.code
			_, listed := f.List(t.Context(), c.root)
			_, opened := f.Open(t.Context(), c.root+"/x")
			if opened == nil || !c.listed && !strings.Contains(opened.Error(), c.code) {
				t.Errorf("%v does not say the code", opened)
			}
			want := fmt.Sprintf("%d %s", c.status, c.code)
			if listed == nil || !strings.Contains(listed.Error(), want) || !strings.Contains(listed.Error(), c.hint) {
				t.Errorf("%v does not say %q and %q", listed, want, c.hint)
			}
		})
	}
}

// TestChanged: all reads of an object are of one version.
func TestChanged(t *testing.T) {
	sourcetest.NewS3(t)
	changed(t, rootS3)
}

func changed(t *testing.T, root string) {
	f := files(t, source.Options{})
	p := root + "/x"
	if err := f.WriteAll(t.Context(), p, noise(100)); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WriteAll(t.Context(), p, noise(101)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := file.ReadAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, source.ErrChanged) {
		t.Errorf("%v", err)
	}
}

// TestWaited: a slow answer counts as a wait for the first byte, for a plain read and for one
// with blocks read ahead. Bytes that are already there count as no wait.
func TestWaited(t *testing.T) { waited(t, sourcetest.NewS3(t), rootS3) }

// waits matches a dump of stacks in which a read waits for what is read ahead.
var waits = regexp.MustCompile(`\[chan receive\]:\n[^\n]*source\.\(\*ahead\)\.wait\(`)

func waited(t *testing.T, s *sourcetest.Server, root string) {
	f := files(t, source.Options{})
	p := root + "/x"
	if err := f.WriteAll(t.Context(), p, noise(2*source.Block)); err != nil {
		t.Fatal(err)
	}
	file, err := f.Open(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	const late = 60 * time.Millisecond
	s.Inject(func(int, *http.Request) (sourcetest.Fault, time.Duration) { return sourcetest.None, late })
	_, waited, err := file.ReadAt(t.Context(), make([]byte, 10), 0)
	if err != nil || waited < int64(late) {
		t.Errorf("waited %v, %v", time.Duration(waited), err)
	}
	answer := make(chan struct{})
	s.Inject(func(int, *http.Request) (sourcetest.Fault, time.Duration) { <-answer; return sourcetest.None, 0 })
	stream := file.Stream(t.Context(), 0)
	defer stream.Close()
	go func() {
		defer close(answer)
		for stack := make([]byte, 1<<20); !waits.Match(stack[:runtime.Stack(stack, true)]); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(late)
	}()
	one := make([]byte, 1)
	if _, err := stream.Read(one); err != nil || stream.Waited() < int64(late) {
		t.Errorf("waited %v, %v", time.Duration(stream.Waited()), err)
	}
	before := stream.Waited()
	if _, err := io.CopyN(io.Discard, stream, 1000); err != nil || stream.Waited() != before {
		t.Errorf("waited %v for bytes that were there, %v", time.Duration(stream.Waited()-before), err)
	}
}

// TestCache: blocks that are kept are not requested again, are limited in size, and belong to
// one version. If nothing more can be written, the cache ends and the reads go on.
func TestCache(t *testing.T) {
	s := sourcetest.NewS3(t)
	dir := filepath.Join(t.TempDir(), "cache")
	open := func(most int64) (*source.Files, *source.Cache) {
		c, err := source.NewCache(dir, most)
		if err != nil {
			t.Fatal(err)
		}
		return files(t, source.Options{Cache: c}), c
	}
	p, want := rootS3+"/x", noise(3*source.Block+7)
	read := func(f *source.Files) (requests int) {
		t.Helper()
		s.Inject(nil)
		file, err := f.Open(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, _, err := file.ReadAt(t.Context(), got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("other bytes, %v", err)
		}
		n, _ := s.Requests()
		return n
	}
	f, _ := open(source.MinCache)
	if err := f.WriteAll(t.Context(), p, want); err != nil {
		t.Fatal(err)
	}
	if first, again := read(f), read(f); first != 5 || again != 1 {
		t.Errorf("%d requests, then %d", first, again)
	}
	if f, _ := open(source.MinCache); read(f) != 1 {
		t.Error("the next run does not know what is kept")
	}
	want = noise(3*source.Block + 8)
	if err := f.WriteAll(t.Context(), p, want); err != nil {
		t.Fatal(err)
	}
	if n := read(f); n != 5 {
		t.Errorf("%d requests for another version", n)
	}
	const little = 2*source.Block + 100
	small, c := open(little)
	f = small
	if c.Bytes() > little {
		t.Errorf("%d bytes are kept of %d", c.Bytes(), little)
	}
	if read(f); c.Bytes() > little {
		t.Errorf("%d bytes are kept of %d", c.Bytes(), little)
	}
	spoil(t, dir)
	if why := f.Trouble(); why != "" {
		t.Error(why)
	}
	if read(f); !strings.Contains(f.Trouble(), "the run goes on") {
		t.Errorf("trouble %q", f.Trouble())
	}
}

// TestCommit: it is an error if the parts of an object cannot be put together, even if an older
// object of that size exists. It is no error if only the answer was lost.
func TestCommit(t *testing.T) { commit(t, sourcetest.NewS3(t), rootS3) }

func commit(t *testing.T, s *sourcetest.Server, root string) {
	f := files(t, source.Options{})
	p := root + "/x"
	older, newer := noise(9<<20), bytes.Repeat([]byte{7}, 9<<20)
	if err := f.WriteAll(t.Context(), p, older); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fault sourcetest.Fault
		times int
		want  []byte
	}{{sourcetest.Busy, 100, older}, {sourcetest.Lost, 1, newer}} {
		n := 0
		s.Inject(func(_ int, r *http.Request) (sourcetest.Fault, time.Duration) {
			q := r.URL.Query()
			if r.Method == http.MethodPost && q.Has("uploadId") || q.Get("comp") == "blocklist" { // of S3, of Azure
				if n++; n <= c.times {
					return c.fault, 0
				}
			}
			return sourcetest.None, 0
		})
		err := f.WriteAll(t.Context(), p, newer)
		s.Inject(nil)
		got, rerr := f.ReadAll(t.Context(), p, 1<<30)
		if (err != nil) != (c.fault == sourcetest.Busy) || rerr != nil || !bytes.Equal(got, c.want) || n < 2 {
			t.Errorf("fault %d, %d times: %v, %v, the right bytes: %t", c.fault, n, err, rerr, bytes.Equal(got, c.want))
		}
	}
}
