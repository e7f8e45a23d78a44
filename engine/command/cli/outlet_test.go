//go:build linux

package cli

import (
	"context"
	"errors"
	"io"
	"testing"
)

// TestOutlet: an outlet waits for its reader until it is told to end, and then for a short time.
func TestOutlet(t *testing.T) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	out := NewOutlet(ctx, w)
	go func() { _, _ = r.Read(make([]byte, 8)) }()
	if n, err := out.Write([]byte("read")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	cancel()
	for range 2 {
		if _, err := out.Write([]byte("unread")); !errors.Is(err, errUnread) {
			t.Errorf("%v, want %v", err, errUnread)
		}
	}
	r.Close() // lets the writer go
}
