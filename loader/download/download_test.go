package download

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server serves content, and breaks off as told. fault says what happens to the n-th request,
// from 1. The server counts the bytes that it sent.
type server struct {
	*httptest.Server
	content []byte
	tag     string
	fault   func(n int, w http.ResponseWriter) (over bool, limit int)
	n       int
	sent    atomic.Int64
}

func serve(t *testing.T, content []byte, fault func(n int, w http.ResponseWriter) (bool, int)) *server {
	s := &server{content: content, tag: `"1"`, fault: fault}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.n++
		limit := -1
		if s.fault != nil {
			var over bool
			if over, limit = s.fault(s.n, w); over {
				return
			}
		}
		w.Header().Set("ETag", s.tag)
		http.ServeContent(&cut{w, limit, &s.sent}, r, "", time.Time{}, bytes.NewReader(s.content))
	}))
	t.Cleanup(func() {
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// cut breaks the connection after so many bytes; -1 never.
type cut struct {
	http.ResponseWriter
	left int
	sent *atomic.Int64
}

func (c *cut) Write(b []byte) (int, error) {
	if c.left >= 0 && len(b) > c.left {
		n, _ := c.ResponseWriter.Write(b[:c.left])
		c.sent.Add(int64(n))
		if f, ok := c.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b) * min(1, c.left+1)
	n, err := c.ResponseWriter.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// TestFile: a file is downloaded through broken connections and a busy server, without any byte
// twice. An interrupted download is resumed.
func TestFile(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	path := filepath.Join(t.TempDir(), "file")
	s := serve(t, content, func(n int, w http.ResponseWriter) (bool, int) {
		switch n {
		case 1, 3:
			return false, 100_000
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true, 0
		}
		return false, -1
	})
	tries := 0
	o := Options{Sum: sumOf(content), Pause: time.Millisecond, Retry: func(error) { tries++ }}
	if err := File(t.Context(), s.URL, path, o); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if tries != 3 || s.sent.Load() != int64(len(content)) {
		t.Errorf("%d retries, %d bytes sent of %d", tries, s.sent.Load(), len(content))
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestFileOfAnotherVersion: a part of an older version is not resumed.
func TestFileOfAnotherVersion(t *testing.T) {
	old, now := bytes.Repeat([]byte("old"), 50_000), bytes.Repeat([]byte("new"), 50_000)
	path := filepath.Join(t.TempDir(), "file")
	s := serve(t, old, func(n int, _ http.ResponseWriter) (bool, int) {
		return false, map[bool]int{true: 70_000, false: -1}[n == 1]
	})
	ctx, cancel := context.WithCancel(t.Context())
	if err := File(ctx, s.URL, path, Options{Retry: func(error) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if size(path+partial) != 70_000 {
		t.Errorf("%d bytes are kept", size(path+partial))
	}
	s.content, s.tag = now, `"2"`
	if err := File(t.Context(), s.URL, path, Options{Sum: sumOf(now)}); err != nil {
		t.Fatal(err)
	}
}

// TestFileThatIsWhole: if the part is complete and only the name is missing, nothing is
// downloaded again.
func TestFileThatIsWhole(t *testing.T) {
	content := bytes.Repeat([]byte("all"), 50_000)
	path := filepath.Join(t.TempDir(), "file")
	s := serve(t, content, nil)
	if err := errors.Join(os.WriteFile(path+partial, content, 0o600), os.WriteFile(path+tagged, []byte(s.tag), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := File(t.Context(), s.URL, path, Options{Sum: sumOf(content)}); err != nil || s.n != 1 || s.sent.Load() > 100 {
		t.Errorf("%v, asked %d times, %d bytes came", err, s.n, s.sent.Load())
	}
}

// TestFileAsStored: if a server calls gzip the encoding of a tar.gz, the file is still stored
// as it is.
func TestFileAsStored(t *testing.T) {
	content, err := os.ReadFile(packed(t, "data/a"))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, content, func(_ int, w http.ResponseWriter) (bool, int) {
		w.Header().Set("Content-Encoding", "gzip")
		return false, -1
	})
	if err := File(t.Context(), s.URL, filepath.Join(t.TempDir(), "file"), Options{Sum: sumOf(content)}); err != nil {
		t.Error(err)
	}
}

// TestFileRefused: a download that fails says why, and leaves no file with that name.
func TestFileRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		fault func(n int, w http.ResponseWriter) (bool, int)
		sum   string
		url   string
		says  string
		asked int
	}{
		{"not found", func(_ int, w http.ResponseWriter) (bool, int) { w.WriteHeader(http.StatusNotFound); return true, 0 }, "", "", "404 Not Found; check the address", 1},
		{"for ever busy", func(_ int, w http.ResponseWriter) (bool, int) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true, 0
		}, "", "", "503 Service Unavailable; try again later: what is there is gone on with", attempts},
		{"another file", nil, "md5:" + strings.Repeat("0", 32), "", "should be md5:00000000000000000000000000000000: it is damaged or another file; try again", 1},
		{"no checksum", nil, "sha1:00", "", "write it as sha256:HEX or md5:HEX", 0},
		{"no server", nil, "", "http://127.0.0.1:1/x", "connection refused; try again later", 0},
		{"no address", nil, "", "http://[", "it is no address", 0},
	} {
		s := serve(t, []byte("content"), c.fault)
		url := c.url
		if url == "" {
			url = s.URL
		}
		path := filepath.Join(dir, "file")
		err := File(t.Context(), url, path, Options{Sum: c.sum, Pause: time.Microsecond})
		if err == nil || !strings.Contains(err.Error(), c.says) || s.n != c.asked {
			t.Errorf("%s: %v, asked %d times", c.name, err, s.n)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: there is a file", c.name)
		}
	}
}

// packed is a tar.gz of files.
func packed(t *testing.T, names ...string) string {
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, n := range names {
		if err := w.WriteHeader(&tar.Header{Name: n, Typeflag: tar.TypeReg, Size: 2, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("hi")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUnpack: a folder appears as a whole, and nothing is written outside of it.
func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	if err := Unpack(t.Context(), packed(t, "data/a", "data/b/c"), "data", dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "data", "b", "c")); err != nil || string(b) != "hi" {
		t.Error(string(b), err)
	}
	broken := packed(t, "data/a")
	if err := os.Truncate(broken, 40); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{packed(t, "data/../../x"): "lies elsewhere", packed(t, "other/a"): "holds no folder data", broken: "truncated or damaged"} {
		to := t.TempDir()
		if err := Unpack(t.Context(), path, "data", to); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
