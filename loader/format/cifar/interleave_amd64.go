//go:build cgo

package cifar

/*
#cgo CFLAGS: -O3 -Wall
#include "interleave_amd64.h"
#cgo noescape gpustall_interleave
#cgo nocallback gpustall_interleave
*/
import "C"

import "golang.org/x/sys/cpu"

// native says whether this processor runs interleave_amd64.c.
var native = cpu.X86.HasAVX2

// interleave is CHW to HWC.
func interleave(dst, src *[Pixels]byte) {
	if !native {
		interleaveGo(dst, src)
		return
	}
	C.gpustall_interleave((*C.uint8_t)(&src[0]), plane, (*C.uint8_t)(&dst[0]))
}
