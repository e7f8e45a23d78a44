package command

import "golang.org/x/sys/unix"

// affinity returns how many cpus this process may use, and which.
func affinity() (int, string) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 0, ""
	}
	var ids []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			ids = append(ids, i)
		}
	}
	return len(ids), ranges(ids)
}
