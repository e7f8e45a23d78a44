//go:build !cgo || !amd64

package npy

// halves is written in C where there is C for the processor; here it writes nothing.
func halves([]float32, []byte, int) int { return 0 }
