//go:build cgo

package pixels

/*
#cgo CFLAGS: -O3 -Wall
#include "blur_amd64.h"
#include "resize_amd64.h"
#cgo noescape gpustall_blur_row
#cgo nocallback gpustall_blur_row
#cgo noescape gpustall_blur_columns
#cgo nocallback gpustall_blur_columns
#cgo noescape gpustall_resize_horizontal
#cgo nocallback gpustall_resize_horizontal
#cgo noescape gpustall_resize_vertical
#cgo nocallback gpustall_resize_vertical
*/
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native reports whether this processor can run the C code.
var native = cpu.X86.HasAVX2

func bytesOf(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
func words(v []int32) *C.int32_t  { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(v))) }
func shorts(v []int16) *C.int16_t { return (*C.int16_t)(unsafe.Pointer(unsafe.SliceData(v))) }
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
	C.gpustall_blur_columns(floats(z.rows), words(z.lines), C.size_t(n), floats(z.weights),
		C.size_t(len(z.weights)-1), bytesOf(dst))
}

// horizontalRows makes rows of mid from rows of in that lie stride apart.
func (z *Resizer) horizontalRows(in []byte, stride, rows int, mirrored bool, mid []byte) {
	t, mirror := &z.cols, C.int(0)
	if mirrored {
		mirror = 1
	}
	C.gpustall_resize_horizontal(bytesOf(in), C.size_t(stride), C.size_t(rows), words(t.first), shorts(t.split),
		C.size_t(t.pairs), C.size_t(len(t.first)), mirror, bytesOf(mid), C.size_t(z.stride))
}

// verticalRows makes n rows of the result from mid, beginning with a given one.
func (z *Resizer) verticalRows(from, n int, dst []byte) {
	t := &z.rows
	C.gpustall_resize_vertical(bytesOf(z.mid), C.size_t(z.stride), C.size_t(z.width), words(t.first[from:from+n]), words(t.width[from:from+n]),
		shorts(t.split[from*t.room():]), C.size_t(t.pairs), C.size_t(n), bytesOf(dst))
}
