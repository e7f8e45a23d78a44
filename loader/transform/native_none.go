//go:build !cgo || !amd64

package transform

// native is whether there is C for this machine. Without it nothing below is called.
var native = false

func (z *resizer) horizontalRows([]byte, int, int, bool, []byte) {}
func (z *resizer) verticalRows(int, []byte)                      {}
func (z *resizer) normalisedRows(int, *Norm, []float32)          {}

func (t *Crop) nativeWrite([]byte, int, int, int, int, int, int, bool, []float32) {}
