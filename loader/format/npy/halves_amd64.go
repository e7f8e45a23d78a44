//go:build cgo

package npy

/*
#cgo CFLAGS: -O3 -Wall
#include "halves_amd64.h"
#cgo noescape gpustall_halves
#cgo nocallback gpustall_halves
*/
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native says whether this processor runs halves_amd64.c. Every one with AVX2 has F16C.
var native = cpu.X86.HasAVX2

// halves writes pixels of three floats, from planes of so many float16 each, and returns how
// many it wrote: all but a few.
func halves(dst []float32, src []byte, plane int) int {
	if !native {
		return 0
	}
	n := plane &^ 7
	_, _ = dst[3*plane-1], src[3*2*plane-1] // C looks at neither
	C.gpustall_halves((*C.uint8_t)(unsafe.SliceData(src)), C.size_t(plane), C.size_t(n), (*C.float)(unsafe.SliceData(dst)))
	return n
}
