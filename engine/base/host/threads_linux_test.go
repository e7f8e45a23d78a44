package host

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestThreadTimes: a thread that computes is seen to, under its own number.
func TestThreadTimes(t *testing.T) {
	if len(ThreadTimes(os.Getpid())) == 0 {
		t.Skip("the kernel does not tell here how long threads were on a core")
	}
	tid := make(chan int)
	var stop atomic.Bool
	defer stop.Store(true)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		for !stop.Load() { // a thread that computes all the time
		}
	}()
	busy := <-tid
	for end := time.Now().Add(time.Minute); ThreadTimes(os.Getpid())[busy] < 50*time.Millisecond; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(ThreadTimes(os.Getpid()))
		}
	}
	if got := ThreadTimes(1 << 30); len(got) > 0 {
		t.Errorf("of no process: %v", got)
	}
}
