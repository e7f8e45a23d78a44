package host

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAwaitsLock(t *testing.T) {
	rest := " 0x0 0x0 0x0 0xffffffff 0x7ffe7ceeb7d0 0x7fbed0d3f117\n"
	for _, c := range []struct {
		name string
		line string
		want bool
	}{
		{"a semaphore in shared memory", fmt.Sprintf("%d 0x7fbed0ed2000 0x109", unix.SYS_FUTEX), true},
		{"a mutex that inherits priority", fmt.Sprintf("%d 0x7fbed0ed2000 0x6", unix.SYS_FUTEX), true},
		{"a lock of the process's own, as between its threads", fmt.Sprintf("%d 0x7fbed0ed2000 0x189", unix.SYS_FUTEX), false},
		{"it wakes another", fmt.Sprintf("%d 0x7fbed0ed2000 0x1", unix.SYS_FUTEX), false},
		{"a lock on a file", fmt.Sprintf("%d 0x5 0x2", unix.SYS_FLOCK), true},
		{"a record lock", fmt.Sprintf("%d 0x5 0x%x", unix.SYS_FCNTL, unix.F_SETLKW), true},
		{"another use of fcntl", fmt.Sprintf("%d 0x5 0x3", unix.SYS_FCNTL), false},
		{"it sleeps", fmt.Sprintf("%d 0x1 0x1", unix.SYS_CLOCK_NANOSLEEP), false},
	} {
		if got := awaitsLock(c.line + rest); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if awaitsLock("running\n") || awaitsLock("") || awaitsLock("x y z") {
		t.Error("no call at all")
	}
}

// TestAwaitsFileLock: a process that waits for a lock on a file is seen to.
func TestAwaitsFileLock(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("there is no flock: ", err)
	}
	f, err := os.Create(t.TempDir() + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(flock, f.Name(), "true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		waits, known := AwaitsLock(c.Process.Pid)
		if !known {
			_ = c.Process.Kill()
			_ = c.Wait()
			t.Skip("the kernel does not show here what other processes are in")
		}
		if waits {
			break
		}
		if time.Now().After(end) {
			t.Error("it is not seen to wait")
			break
		}
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
