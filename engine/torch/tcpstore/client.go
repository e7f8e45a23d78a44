// Package tcpstore talks to the store through which the processes of a distributed PyTorch training find
// each other (torch.distributed.TCPStore). It writes and reads keys of its own, from outside of the
// training. It uses no thread, lock or descriptor of the training.
//
// The protocol is PyTorch's own, of version 2.4 and later. It is not documented. The numbers are from
// TCPStoreBackend.hpp, which each release of PyTorch has among its headers.
package tcpstore

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// These are the queries that this package uses, of all that a store answers.
const (
	queryValidate = 0
	querySet      = 1
	queryCheck    = 5
	queryMultiGet = 10
)

const (
	magic   = 0x3C85F7CE // a store knows its clients by this number
	ready   = 0          // the answer to queryCheck: all keys are there
	missing = 1          // some are not

	maxValue = 1 << 20 // bytes; a longer value is not ours
)

// Client is one connection to a store. Only one goroutine may call its methods. After an error the client
// is useless.
type Client struct {
	conn  net.Conn
	in    *bufio.Reader
	out   []byte
	limit time.Duration
	there map[string]bool // keys that were found; nobody deletes them
}

// Dial connects to the store at an address, and checks that it answers as a store does. No call takes
// longer than limit.
func Dial(address string, limit time.Duration) (*Client, error) {
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, in: bufio.NewReader(conn), limit: limit, there: map[string]bool{}}
	c.out = binary.LittleEndian.AppendUint32(append(c.out, queryValidate), magic)
	c.addCheck("/gpustall")
	if err = c.send(); err == nil {
		_, err = c.checked()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Hurry has no later call take longer than limit.
func (c *Client) Hurry(limit time.Duration) { c.limit = min(c.limit, limit) }

// Set writes a value. The store does not answer, so that an error may come with a later call.
func (c *Client) Set(key string, value []byte) error {
	_ = c.Later(key, value)
	return c.send()
}

// Later writes a value with the next Get or Set.
func (c *Client) Later(key string, value []byte) error {
	c.out = appendText(appendText(append(c.out, querySet), key), string(value))
	return nil
}

// Get returns the values of keys, nil for each that is not there. It never waits for one to come. It asks once, and
// once more for keys that it finds the first time.
func (c *Client) Get(keys []string) ([][]byte, error) {
	var ask, have []int
	for i, k := range keys {
		if c.there[k] {
			have = append(have, i)
		} else {
			ask = append(ask, i)
			c.addCheck(k)
		}
	}
	c.addGet(keys, have)
	if err := c.send(); err != nil {
		return nil, err
	}
	found, out := []int(nil), make([][]byte, len(keys))
	for _, i := range ask {
		there, err := c.checked()
		if err != nil {
			return nil, err
		}
		if there {
			c.there[keys[i]] = true
			found = append(found, i)
		}
	}
	if err := c.got(out, have); err != nil || len(found) == 0 {
		return out, err
	}
	c.addGet(keys, found)
	if err := c.send(); err != nil {
		return nil, err
	}
	return out, c.got(out, found)
}

// addCheck adds the question whether a key is there.
func (c *Client) addCheck(key string) {
	c.out = appendText(binary.LittleEndian.AppendUint64(append(c.out, queryCheck), 1), key)
}

// checked reads the answer.
func (c *Client) checked() (there bool, err error) {
	answer, err := c.in.ReadByte()
	if err == nil && answer != ready && answer != missing {
		err = fmt.Errorf("the store answers %d where it should say whether a key is there", answer)
	}
	return answer == ready, err
}

// addGet adds the question for the values of some keys.
func (c *Client) addGet(keys []string, which []int) {
	if len(which) == 0 {
		return
	}
	c.out = binary.LittleEndian.AppendUint64(append(c.out, queryMultiGet), uint64(len(which)))
	for _, i := range which {
		c.out = appendText(c.out, keys[i])
	}
}

// got reads the answer.
func (c *Client) got(out [][]byte, which []int) error {
	var head [8]byte
	for _, i := range which {
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint64(head[:])
		if n > maxValue {
			return fmt.Errorf("the store answers with a value of %d bytes", n)
		}
		out[i] = make([]byte, n)
		if _, err := io.ReadFull(c.in, out[i]); err != nil {
			return err
		}
	}
	return nil
}

// send writes the collected bytes, and begins the time for the answer.
func (c *Client) send() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	return err
}

func appendText(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}
