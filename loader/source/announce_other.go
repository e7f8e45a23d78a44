//go:build !linux

package source

// Announce does nothing, because this system has no such call.
func Announce(string) {}
