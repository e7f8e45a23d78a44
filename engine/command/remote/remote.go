// Package remote lets another gpustall of the same user ask for A/B tests of a run, through a socket
// beside the session's file. Only the owner of the file can reach it.
package remote

import (
	"errors"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"sync"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// ext is added to the name of a session's file, and longest is what the name of a socket may have.
const (
	ext     = ".ctl"
	longest = 104
)

// Experiments are the tests of a run.
type Experiments interface {
	Begin(kind trace.ExperimentKind, knobs []knob.Setting) error
	Stop()
}

// Server answers requests. Its owner must call Close.
type Server struct {
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once it is closed
}

// Serve takes requests for the run whose session is in a file.
func Serve(file string, run Experiments) (*Server, error) {
	path := file + ext
	if len(path) > longest {
		return nil, errs.New("listen at", path, "the name is too long for a socket", "name a session with a shorter path by --session")
	}
	requests := rpc.NewServer()
	if err := requests.RegisterName("Run", &service{run}); err != nil {
		return nil, errs.Wrap(err, "listen at", path, "go on without gpustall try")
	}
	_ = os.Remove(path) // of a run that was killed
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errs.Wrap(err, "listen at", path, "go on without gpustall try")
	}
	s := &Server{listener: l, conns: map[net.Conn]bool{}}
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if s.add(c) {
				s.done.Go(func() { requests.ServeCodec(jsonrpc.NewServerCodec(c)) })
			}
		}
	})
	return s, nil
}

// add keeps a connection, to close it; false where the server is closed.
func (s *Server) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = c.Close()
		return false
	}
	s.conns[c] = true
	return true
}

// Close removes the socket and ends all connections.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.done.Wait()
}

// service has the methods that can be called.
type service struct{ run Experiments }

// Begin begins an A/B test of settings.
func (s *service) Begin(knobs []knob.Setting, answer *string) error {
	if err := s.run.Begin(trace.Paired, knobs); err != nil {
		*answer = err.Error() // an error of this package's caller, not of the connection
	}
	return nil
}

// Stop ends the test under way.
func (s *service) Stop(_ bool, _ *string) error {
	s.run.Stop()
	return nil
}

// Client asks. Its owner must call Close.
type Client struct{ calls *rpc.Client }

// Dial reaches the run whose session is in a file.
func Dial(file string) (*Client, error) {
	c, err := net.Dial("unix", file+ext)
	if err != nil {
		return nil, errs.Wrap(err, "reach the run of", file, "it must run on this machine, as the same user")
	}
	return &Client{jsonrpc.NewClient(c)}, nil
}

// Begin begins an A/B test of settings. The error is one sentence of the run's.
func (c *Client) Begin(knobs []knob.Setting) error {
	var answer string
	if err := c.calls.Call("Run.Begin", knobs, &answer); err != nil {
		return errs.Wrap(err, "begin", "an A/B test", "look whether the run has ended")
	}
	if answer != "" {
		return errors.New(answer)
	}
	return nil
}

// Stop ends the test under way, which takes its settings back.
func (c *Client) Stop() { _ = c.calls.Call("Run.Stop", false, new(string)) }

// Close ends the connection.
func (c *Client) Close() { _ = c.calls.Close() }
