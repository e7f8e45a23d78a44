package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// Affinity returns the numbers of the cpus that this process may run on; nil when that is not
// known. It asks for the process's first thread, because the calling thread may be bound to fewer
// cpus.
func Affinity() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) != nil {
		return nil
	}
	var ids []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			ids = append(ids, i)
		}
	}
	return ids
}
