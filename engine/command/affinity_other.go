//go:build !linux

package command

// affinity is known on Linux only.
func affinity() (int, string) { return 0, ranges(nil) }
