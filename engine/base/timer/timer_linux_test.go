package timer

import (
	"errors"
	"os"
	"testing"
	"time"
)

// An alarm is never early, and closing it ends a wait.
func TestAlarm(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{-1, 0, time.Millisecond} {
		begin := time.Now()
		if err := a.Wait(d); err != nil || time.Since(begin) < d {
			t.Errorf("%v after %v, %v asked for", err, time.Since(begin), d)
		}
	}
	time.AfterFunc(time.Millisecond, a.Close)
	if err := a.Wait(time.Hour); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
