package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ThreadTimes returns how long each thread of a process was on a core so far, by its number. The
// first thread has the process's number. It is empty where the kernel does not tell, or the
// process has ended.
func ThreadTimes(pid int) map[int]time.Duration {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	times := map[int]time.Duration{}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		text, bad := os.ReadFile(dir + "/" + task.Name() + "/schedstat")
		if err != nil || bad != nil { // it has just ended
			continue
		}
		ran, _, _ := bytes.Cut(text, []byte{' '})
		if ns, err := strconv.ParseInt(string(ran), 10, 64); err == nil {
			times[tid] = time.Duration(ns)
		}
	}
	return times
}
