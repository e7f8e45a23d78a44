//go:build linux

package bridge

import (
	"os/exec"
	"testing"
	"time"
)

// TestEnds: it is told how the process of a rank ended, also where its parent has asked for that already, and not of one whose place
// another took.
func TestEnds(t *testing.T) {
	rank := 3 // of the process that takes the place: an elastic restart may give it another one
	for script, want := range map[string]string{"exit 0": "with exit code 0", "exit 7": "with exit code 7", "kill -9 $$": "by SIGKILL (killed)"} {
		var e ends
		woken := make(chan bool, 2)
		e.wake = func() { woken <- true }
		cmd := exec.Command("sh", "-c", "read x; "+script)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		e.follow(3, cmd.Process.Pid, seat{7, 0})
		if got := e.all(); len(got) > 0 {
			t.Errorf("%s: ended before its end: %v", script, got)
		}
		_ = in.Close()
		select {
		case <-woken:
		case <-time.After(10 * time.Second):
			t.Fatal("its end is not told")
		}
		rank = 5 - rank
		if got := e.all(); len(got) != 1 || got[0].Rank != 3 || got[0].How != want {
			t.Errorf("%s: %v, want %q", script, got, want)
		}
		_ = cmd.Wait()
		next := exec.Command("sleep", "60")
		if err := next.Start(); err != nil {
			t.Fatal(err)
		}
		e.follow(rank, next.Process.Pid, seat{7, 0})
		if got := e.all(); len(got) > 0 {
			t.Errorf("%s: another has its place, as rank %d, and %v", script, rank, got)
		}
		e.close()
		_ = next.Process.Kill()
		_ = next.Wait()
	}
}
