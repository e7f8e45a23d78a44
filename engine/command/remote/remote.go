// Package remote lets another gpustall of the same user change a run and ask for experiments, through a socket
// beside the session's file. Only the owner of the file can reach it.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

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

// Control changes a run's knobs.
type Control interface {
	Set(changes []knob.Setting) error // all or none; the error is one sentence
	Requested() []knob.Setting
	Pause(on bool)
	Paused() bool
}

// Server answers requests. Its owner must call Close.
type Server struct {
	listener net.Listener
	folder   io.Closer
	done     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once it is closed
}

// socketOf returns the socket of a session's file, under a name that is valid until folder is closed. Names of jobs may be long: such a
// socket is named by a hash, and reached through its folder where the path is long too.
func socketOf(file string) (path string, folder io.Closer, err error) {
	dir, name := filepath.Split(file + ext)
	if len(throughFolder)+len(name) > longest {
		h := fnv.New64a()
		_, _ = io.WriteString(h, name)
		name = fmt.Sprintf("%016x%s", h.Sum64(), ext)
	}
	if path = filepath.Join(dir, name); len(path) <= longest {
		return path, io.NopCloser(nil), nil
	}
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf(throughFolder, f.Fd()) + name, f, nil
}

// throughFolder is a folder that is open, as Linux names it.
const throughFolder = "/proc/self/fd/%d/"

// Serve takes requests for the run whose session is in a file.
func Serve(file string, run Experiments, control Control) (*Server, error) {
	path, folder, err := socketOf(file)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(path) // of a run that was killed
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		_ = folder.Close()
		return nil, errs.Wrap(err, "listen at", path, "go on without gpustall try")
	}
	s := &Server{listener: l, folder: folder, conns: map[net.Conn]bool{}}
	s.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if s.add(c) {
				s.done.Go(func() { s.answer(c, run, control) })
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
	_ = s.folder.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.done.Wait()
}

// request is what a client asks for: an experiment, or the end of the one under way, a change of knobs, a pause or its
// end, or only how the run is. net/rpc would keep every exported method of the whole program, 10 MB, in the binary.
type request struct {
	Begin trace.ExperimentKind `json:"begin,omitempty"`
	Stop  bool                 `json:"stop,omitempty"`
	Set   bool                 `json:"set,omitempty"`
	Knobs []knob.Setting       `json:"knobs,omitempty"` // of Begin, or of Set
	Pause *bool                `json:"pause,omitempty"`
}

// reply has an error of the run, if there is one, and what was asked of it last.
type reply struct {
	Error     string         `json:"error,omitempty"`
	Requested []knob.Setting `json:"requested,omitempty"`
	Paused    bool           `json:"paused,omitempty"`
}

// answer serves one connection until it ends.
func (s *Server) answer(c net.Conn, run Experiments, control Control) {
	defer s.drop(c)
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var asked request
		if in.Decode(&asked) != nil {
			return
		}
		var err error
		switch {
		case asked.Stop:
			run.Stop()
		case asked.Begin != "":
			err = run.Begin(asked.Begin, asked.Knobs)
		case asked.Set:
			err = control.Set(asked.Knobs)
		case asked.Pause != nil:
			control.Pause(*asked.Pause)
		}
		answer := reply{Requested: control.Requested(), Paused: control.Paused()}
		if err != nil {
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

// Client asks. Any goroutine may call its methods. Its owner must call Close.
type Client struct {
	conn net.Conn
	in   *json.Decoder
	one  sync.Mutex // over a request and its reply
	asks sync.WaitGroup

	mu     sync.Mutex
	last   reply
	looked time.Time // when the state of the run was asked for last
}

// stateEvery is how often the state of the run is asked for, at the most.
const stateEvery = 200 * time.Millisecond

// Dial reaches the run whose session is in a file.
func Dial(file string) (*Client, error) {
	path, folder, err := socketOf(file)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, errs.Wrap(err, "reach the run of", file, "it must run on this machine, as the same user")
	}
	return &Client{conn: c, in: json.NewDecoder(c)}, nil
}

// Begin begins an experiment. The error is one sentence of the run's.
func (c *Client) Begin(kind trace.ExperimentKind, knobs []knob.Setting) error {
	return c.ask(request{Begin: kind, Knobs: knobs}, "begin", "an experiment")
}

// Set changes knobs, all or none. The error is one sentence of the run's.
func (c *Client) Set(changes []knob.Setting) error {
	return c.ask(request{Set: true, Knobs: changes}, "set", "knobs")
}

// Stop ends the experiment under way, which takes its settings back.
func (c *Client) Stop() { _ = c.ask(request{Stop: true}, "stop", "the experiment") }

// Pause stops the training at its next batch, or lets it go on.
func (c *Client) Pause(on bool) { _ = c.ask(request{Pause: &on}, "pause", "the run") }

// Requested returns the knobs that were asked for last. It does not wait for the run.
func (c *Client) Requested() []knob.Setting { return c.state().Requested }

// Paused reports whether a pause was asked for. It does not wait for the run.
func (c *Client) Paused() bool { return c.state().Paused }

// state returns how the run was when it last answered, and asks again now and then.
func (c *Client) state() reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) > stateEvery {
		c.looked = time.Now()
		c.asks.Go(func() { _ = c.ask(request{}, "look at", "the run") })
	}
	return c.last
}

func (c *Client) ask(r request, op, object string) error {
	c.one.Lock()
	defer c.one.Unlock()
	var answer reply
	err := json.NewEncoder(c.conn).Encode(r)
	if err == nil {
		err = c.in.Decode(&answer)
	}
	if err != nil {
		return errs.Wrap(err, op, object, "look whether the run has ended")
	}
	c.mu.Lock()
	c.last = answer
	c.mu.Unlock()
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// Close ends the connection.
func (c *Client) Close() {
	_ = c.conn.Close()
	c.asks.Wait()
}
