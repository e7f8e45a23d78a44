//go:build !unix

package machine

// limits returns nothing: limits are read on Unix only.
func limits() []finding { return nil }
