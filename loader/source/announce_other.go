//go:build !linux

package source

// Announce does nothing here: there is no such call.
func Announce(string) {}
