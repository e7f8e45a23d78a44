//go:build cgo

package pixels

/*
#cgo CFLAGS: -O3 -Wall
#include "blur_amd64.h"
#cgo noescape gpustall_blur_row
#cgo nocallback gpustall_blur_row
#cgo noescape gpustall_blur_columns
#cgo nocallback gpustall_blur_columns
*/
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native says whether this processor runs what is in C.
var native = cpu.X86.HasAVX2

func floats(v []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(v))) }

func (z *Blur) nativeRow(n int, out []float32) {
	r := len(z.weights) - 1
	_, _ = z.line[n+6*r+block-1], out[n+block-1] // C looks at neither
	C.gpustall_blur_row(floats(z.line), C.size_t(n), floats(z.weights), C.size_t(r), floats(out))
}

func (z *Blur) nativeColumns(n int, dst []byte) {
	_ = dst[n-1]
	for _, at := range z.lines {
		_ = z.rows[int(at)+n+block-1]
	}
	C.gpustall_blur_columns(floats(z.rows), (*C.int32_t)(unsafe.SliceData(z.lines)), C.size_t(n), floats(z.weights),
		C.size_t(len(z.weights)-1), (*C.uint8_t)(unsafe.SliceData(dst)))
}
