//go:build !linux

package source

// Announce has the system begin to bring a file into its cache where it can be told to.
func Announce(string) {}
