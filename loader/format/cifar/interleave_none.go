//go:build !cgo || !amd64

package cifar

// interleave is CHW to HWC.
func interleave(dst, src *[Pixels]byte) { interleaveGo(dst, src) }
