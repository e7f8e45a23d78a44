//go:build !cgo || !amd64

package pixels

// native is whether there is C for this machine. Without it nothing below is called.
var native = false

func (z *Blur) nativeRow(int, []float32)  {}
func (z *Blur) nativeColumns(int, []byte) {}

func (z *Resizer) horizontalRows([]byte, int, int, bool, []byte) {}
func (z *Resizer) verticalRows(int, int, []byte)                 {}
