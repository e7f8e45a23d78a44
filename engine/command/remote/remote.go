// Package remote lets another gpustall of the same user ask for A/B tests of a run, through a socket
// beside the session's file. Only the owner of the file can reach it.
package remote

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// ext is added to the name of a session's file. longest is the most bytes that the name of a
// socket may have.
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
				s.done.Go(func() { s.answer(c, run) })
			}
		}
	})
	return s, nil
}

// add keeps a connection, so that Close can close it. It returns false if the server is
// closed.
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

// request is what a client asks for: an A/B test of settings, or the end of the one under way.
// net/rpc would keep every exported method of the whole program, 10 MB, in the binary.
type request struct {
	Begin []knob.Setting `json:"begin,omitempty"`
	Stop  bool           `json:"stop,omitempty"`
}

// reply has an error of the run, if there is one.
type reply struct {
	Error string `json:"error,omitempty"`
}

// answer serves one connection until it ends.
func (s *Server) answer(c net.Conn, run Experiments) {
	defer s.drop(c)
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var asked request
		if in.Decode(&asked) != nil {
			return
		}
		var answer reply
		if asked.Stop {
			run.Stop()
		} else if err := run.Begin(trace.Paired, asked.Begin); err != nil {
			answer.Error = err.Error()
		}
		if out.Encode(&answer) != nil {
			return
		}
	}
}

// drop ends a connection.
func (s *Server) drop(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Client asks, from one goroutine at a time. Its owner must call Close.
type Client struct {
	conn net.Conn
	in   *json.Decoder
}

// Dial reaches the run whose session is in a file.
func Dial(file string) (*Client, error) {
	c, err := net.Dial("unix", file+ext)
	if err != nil {
		return nil, errs.Wrap(err, "reach the run of", file, "it must run on this machine, as the same user")
	}
	return &Client{c, json.NewDecoder(c)}, nil
}

// Begin begins an A/B test of settings. The error is one sentence of the run's.
func (c *Client) Begin(knobs []knob.Setting) error {
	answer, err := c.ask(request{Begin: knobs})
	if err != nil {
		return errs.Wrap(err, "begin", "an A/B test", "look whether the run has ended")
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// Stop ends the test under way, which takes its settings back.
func (c *Client) Stop() { _, _ = c.ask(request{Stop: true}) }

func (c *Client) ask(r request) (answer reply, err error) {
	if err = json.NewEncoder(c.conn).Encode(r); err == nil {
		err = c.in.Decode(&answer)
	}
	return answer, err
}

// Close ends the connection.
func (c *Client) Close() { _ = c.conn.Close() }
