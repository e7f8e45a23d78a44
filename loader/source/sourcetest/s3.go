// Package sourcetest starts object stores for tests, and makes them fail.
package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the name of a server's only bucket.
const Bucket = "bucket"

// Fault says how a request fails.
type Fault int

// Faults.
const (
	None      Fault = iota
	Busy            // 503 SlowDown
	Reset           // the connection is cut before an answer
	Truncated       // the body ends in the middle
	Silent          // the body stops in the middle, until the client goes
	Lost            // done, and the connection is cut before the answer
)

// Server is a store on this machine: real HTTP, in memory.
type Server struct {
	// before decides for each request how it fails, and after which pause. It may be nil, and
	// is set with Inject.
	before  func(n int, r *http.Request) (Fault, time.Duration)
	handler http.Handler
	addr    string

	mu     sync.Mutex
	n      int
	http   *httptest.Server
	failed int
}

// NewS3 starts an S3 server with an empty bucket. It sets the test's environment variables for
// it and its credentials.
func NewS3(t testing.TB) *Server {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	s := &Server{handler: gofakes3.New(backend).Server()}
	s.Start(t)
	t.Cleanup(s.Stop)
	missing := filepath.Join(t.TempDir(), "missing")
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": "http://" + s.addr, "AWS_ACCESS_KEY_ID": "key-of-the-test", "AWS_SECRET_ACCESS_KEY": Secret,
		"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": missing,
		"AWS_SHARED_CREDENTIALS_FILE": missing, "AWS_PROFILE": "", "AWS_SESSION_TOKEN": "",
	} {
		t.Setenv(name, value)
	}
	return s
}

// Secret is a text that no output may show.
const Secret = "secret-of-the-test"

// Start starts the server, at its earlier address if it had one.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	var c net.ListenConfig
	addr := s.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := c.Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	h := &httptest.Server{Listener: l, Config: &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}}
	h.Start()
	s.mu.Lock()
	s.http = h
	s.mu.Unlock()
}

// Stop cuts all connections and accepts no more.
func (s *Server) Stop() {
	s.mu.Lock()
	h := s.http
	s.http = nil
	s.mu.Unlock()
	if h != nil {
		h.CloseClientConnections()
		h.Close()
	}
}

// Inject sets the faults of later requests, counted from 1; nil means none.
func (s *Server) Inject(before func(n int, r *http.Request) (Fault, time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.n = before, 0
}

// Requests returns how many requests came since Inject, and how many of them were made to fail.
func (s *Server) Requests() (all, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.failed
}

// ServeHTTP answers as the store does, or fails.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.n++
	n, before := s.n, s.before
	s.mu.Unlock()
	var fault Fault
	var pause time.Duration
	if before != nil {
		fault, pause = before(n, r)
	}
	if fault != None {
		s.mu.Lock()
		s.failed++
		s.mu.Unlock()
	}
	select {
	case <-time.After(pause):
	case <-r.Context().Done():
		return
	}
	switch fault {
	case Busy:
		Refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case Reset:
		panic(http.ErrAbortHandler)
	case Lost:
		s.handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case Truncated, Silent:
		half := &half{ResponseWriter: w, r: r, silent: fault == Silent}
		s.handler.ServeHTTP(half, r)
		if half.cut {
			panic(http.ErrAbortHandler)
		}
	default:
		s.handler.ServeHTTP(w, r)
	}
}

// Refuse answers with an error as S3 and Azure do. The answer to a HEAD has no body, so of S3's it has no code.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("x-ms-error-code", code)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>No.</Message></Error>", code)
}

// half lets half of a body's first piece through.
type half struct {
	http.ResponseWriter
	r      *http.Request
	silent bool
	cut    bool
}

var errCut = errors.New("cut")

func (h *half) Write(p []byte) (int, error) {
	if h.cut {
		return 0, errCut
	}
	h.cut = true
	n, err := h.ResponseWriter.Write(p[:len(p)/2])
	if f, ok := h.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	if h.silent {
		<-h.r.Context().Done()
	}
	return n, errors.Join(err, errCut)
}
