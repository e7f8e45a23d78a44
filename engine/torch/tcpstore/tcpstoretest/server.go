// Package tcpstoretest has a store that answers as PyTorch's TCPStore does, for tests without PyTorch.
package tcpstoretest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Server is a store in this process.
type Server struct {
	Address string

	mu      sync.Mutex
	values  map[string][]byte
	open    map[net.Conn]bool
	done    sync.WaitGroup
	listens net.Listener
}

// Start starts a store, which the end of the test stops.
func Start(t *testing.T) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Address: l.Addr().String(), values: map[string][]byte{}, open: map[net.Conn]bool{}, listens: l}
	s.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open[conn] = true
			s.mu.Unlock()
			s.done.Go(func() {
				defer conn.Close()
				s.serve(conn)
			})
		}
	})
	t.Cleanup(s.Stop)
	return s
}

// Stop ends the store and all its connections.
func (s *Server) Stop() {
	_ = s.listens.Close()
	s.mu.Lock()
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

// Put sets a value.
func (s *Server) Put(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
}

// Value returns the value of a key, nil where it is not there.
func (s *Server) Value(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key]
}

// serve answers queries until one is not understood.
func (s *Server) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	number := func() (n uint64) {
		_ = binary.Read(in, binary.LittleEndian, &n)
		return n
	}
	text := func() []byte {
		b := make([]byte, min(number(), 1<<20))
		_, _ = io.ReadFull(in, b)
		return b
	}
	for {
		query, err := in.ReadByte()
		if err != nil {
			return
		}
		var out []byte
		switch query {
		case 0: // it is a client
			if _, err := io.CopyN(io.Discard, in, 4); err != nil {
				return
			}
		case 1: // set
			key := string(text())
			s.Put(key, text())
		case 5: // check
			answer := byte(0)
			for range number() {
				if s.Value(string(text())) == nil {
					answer = 1
				}
			}
			out = append(out, answer)
		case 10: // get several
			for range number() {
				v := s.Value(string(text()))
				out = append(binary.LittleEndian.AppendUint64(out, uint64(len(v))), v...)
			}
		default:
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}
