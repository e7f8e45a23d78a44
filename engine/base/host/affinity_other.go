//go:build !linux

package host

// Affinity is known on Linux only.
func Affinity() []int { return nil }
