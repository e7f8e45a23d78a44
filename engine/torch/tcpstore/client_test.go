package tcpstore

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dev.gpustall/engine/torch/tcpstore/tcpstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClient: a value that one client sets can be read, also by others. A missing value
// is nil at once.
func TestClient(t *testing.T) {
	s := tcpstoretest.Start(t)
	exercise(t, s.Address)
}

func exercise(t *testing.T, address string) {
	t.Helper()
	open := func() *Client {
		c, err := Dial(address, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	get := func(c *Client, keys ...string) [][]byte {
		t.Helper()
		out, err := c.Get(keys)
		if err != nil || len(out) != len(keys) {
			t.Fatalf("%d values of %d keys: %v", len(out), len(keys), err)
		}
		return out
	}
	a, b := open(), open()
	if v := get(b, "/x/0", "/x/1"); v[0] != nil || v[1] != nil {
		t.Errorf("values of keys that are not there: %q", v)
	}
	long := bytes.Repeat([]byte("long "), 10000)
	for key, value := range map[string][]byte{"/x/1": []byte("one"), "/x/2": long} {
		if err := a.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	get(a, "/x/1") // the store has read what was set before it answers that
	if v := get(b, "/x/0", "/x/1", "/x/2"); v[0] != nil || string(v[1]) != "one" || !bytes.Equal(v[2], long) {
		t.Errorf("values %.40q", v)
	}
	if err := a.Set("/x/1", []byte("two")); err != nil {
		t.Fatal(err)
	}
	get(a, "/x/1")
	if v := get(b, "/x/1"); string(v[0]) != "two" {
		t.Errorf("the value %q, which was set anew", v)
	}
}

// TestNoStore: a server that answers differently than a store, or not at all, gives an error within
// the limit.
func TestNoStore(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, answer := range map[string]func(net.Conn){
		"nothing":          func(c net.Conn) { time.Sleep(2 * limit) },
		"the end":          func(c net.Conn) {},
		"another protocol": func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); time.Sleep(limit) },
		"an endless value": func(c net.Conn) {
			_, _ = c.Write(append([]byte{1, 0}, bytes.Repeat([]byte{0xff}, 64)...))
			time.Sleep(limit)
		},
		"a value cut short": func(c net.Conn) { _, _ = c.Write([]byte{1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 'x'}) },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c, err := l.Accept(); err == nil {
					answer(c)
					_ = c.Close()
				}
			}()
			begun := time.Now()
			c, err := Dial(l.Addr().String(), limit)
			if err == nil {
				_, err = c.Get([]string{"/x"})
				_ = c.Close()
			}
			if took := time.Since(begun); err == nil || took > 20*limit {
				t.Errorf("after %s the error is %v", took, err)
			}
			_ = l.Close()
			<-done
		})
	}
}

// TestPyTorch: PyTorch's own store, of both kinds, behaves like the store of the other tests. Rows of 512
// ranks are read at one time.
func TestPyTorch(t *testing.T) {
	python := os.Getenv("GPUSTALL_PYTHON")
	if python == "" {
		t.Skip("GPUSTALL_PYTHON names no Python that has torch; make test-torch does")
	}
	for _, libuv := range []string{"True", "False"} {
		t.Run("libuv "+libuv, func(t *testing.T) {
			address := realStore(t, python, libuv)
			exercise(t, address)
			c, err := Dial(address, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			row := bytes.Repeat([]byte("row "), 128)
			var keys []string
			for rank := range 512 {
				keys = append(keys, fmt.Sprintf("/row/%d", rank))
				if err := c.Set(keys[rank], row); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				begun := time.Now()
				values, err := c.Get(keys)
				took := time.Since(begun)
				for _, v := range values {
					if err != nil || !bytes.Equal(v, row) {
						t.Fatalf("a row is %q: %v", v, err)
					}
				}
				t.Logf("512 rows of %d bytes in %s", len(row), took)
			}
			if libuv == "True" { // the default
				crowd(t, address, c)
			}
		})
	}
}

// crowd has 512 machines write a row of eight ranks a second, as a job of 4,096 ranks does, while one reads them all.
func crowd(t *testing.T, address string, reader *Client) {
	row, quit := bytes.Repeat([]byte("row "), 800), make(chan struct{})
	var all sync.WaitGroup
	for machine := range 512 {
		c, err := Dial(address, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			for tick := time.NewTicker(time.Second); ; {
				if c.Set(fmt.Sprintf("/machine/%d", machine), row) != nil {
					t.Error("a row was not written")
					return
				}
				select {
				case <-quit:
					return
				case <-tick.C:
				}
			}
		})
	}
	var keys []string
	for machine := range 512 {
		keys = append(keys, fmt.Sprintf("/machine/%d", machine))
	}
	for range 3 {
		time.Sleep(time.Second)
		begun := time.Now()
		values, err := reader.Get(keys)
		if err != nil || slices.ContainsFunc(values, func(v []byte) bool { return len(v) != len(row) }) {
			t.Errorf("a row is missing: %v", err)
		}
		t.Logf("512 rows of %d bytes in %s, while 512 are written a second", len(row), time.Since(begun))
	}
	close(quit)
	all.Wait()
}

// realStore starts a store of PyTorch's in a process of its own, and returns its address.
func realStore(t *testing.T, python, libuv string) string {
	t.Helper()
	cmd := exec.Command(python, "-W", "ignore", "-c", `
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=`+libuv+`)
print(store.port, flush=True)
sys.stdin.read()`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + strings.TrimSpace(port)
}
