package source

import (
	"context"
	"testing"
	"time"
)

// TestSend: a request with a large body may take longer, as a slow network needs.
func TestSend(t *testing.T) {
	b := &bucket{files: New(Options{Retry: Retry{Attempts: 1, Silence: time.Millisecond}})}
	for body, want := range map[int64]time.Duration{0: 0, firstPart: firstPart / slowest * time.Second} {
		err := b.send(t.Context(), "write", address{}, body, func(ctx context.Context) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) < want-time.Second || time.Until(at) > want+time.Second {
				t.Errorf("%d bytes may take %v, want %v", body, time.Until(at), want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
