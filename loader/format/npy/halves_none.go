//go:build !cgo || !amd64

package npy

// halves is C's, where there is one.
func halves([]float32, []byte, int) int { return 0 }
