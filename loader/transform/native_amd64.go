//go:build cgo

package transform

/*
#cgo CFLAGS: -O3 -Wall
#include "crop_amd64.h"
#include "normalise.h"
#include "pixels_amd64.h"
#include "planes_amd64.h"
#cgo noescape gpustall_crop
#cgo nocallback gpustall_crop
#cgo noescape gpustall_crop_planes
#cgo nocallback gpustall_crop_planes
#cgo noescape gpustall_interleave
#cgo nocallback gpustall_interleave
#cgo noescape gpustall_normalise
#cgo nocallback gpustall_normalise
*/
import "C"

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"dev.gpustall/loader"
)

// native says whether this processor runs the C code.
var native = cpu.X86.HasAVX2 && cpu.X86.HasFMA

func bytesOf(b []byte) *C.uint8_t   { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }
func floatsOf(v []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(v))) }

func truth(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// nativeWrite does what write does for columns [left,right) of the shifted image.
func (t *Crop) nativeWrite(pix []byte, width, height, dy, dx, left, right int, flip bool, dst []float32) {
	_, _ = pix[3*width*height-1], dst[3*width*height-1] // C looks at neither
	C.gpustall_crop(bytesOf(pix), C.ptrdiff_t(width), C.ptrdiff_t(height), C.ptrdiff_t(dy), C.ptrdiff_t(dx), C.ptrdiff_t(left), C.ptrdiff_t(right),
		truth(flip), floatsOf(t.factors[:]), floatsOf(dst))
}

// native512 says whether it also runs the code that needs AVX-512.
var native512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VBMI

// together is how many images nativePlanes takes at once.
const together = C.gpustall_together

// nativePlanes writes images of rows of 32 pixels that have Planes, one behind the other.
func (t *Crop) nativePlanes(s []loader.Sample, rows int, dst []float32) {
	_ = dst[3*planeWidth*rows*len(s)-1] // C looks at neither
	var all C.struct_gpustall_images
	for i := range s {
		planes, soon := s[i].Planes[:3*planeWidth*rows], s[i].Soon
		if len(soon) < len(planes) {
			soon = nil
		}
		rng := s[i].RNG()
		dy, dx, flip := t.draw(&rng)
		all.of[i] = C.struct_gpustall_image{
			planes: bytesOf(planes), soon: bytesOf(soon), dy: C.int32_t(dy), dx: C.int32_t(dx), flip: truth(flip),
		}
	}
	C.gpustall_crop_planes(all, C.int(len(s)), C.ptrdiff_t(rows), truth(native512), floatsOf(t.factors[:]), floatsOf(dst))
}

// nativeInterleave does what interleave does for a multiple of 32 pixels.
func nativeInterleave(dst, planes []byte) {
	_ = dst[len(planes)-1] // C writes without looking
	C.gpustall_interleave(bytesOf(planes), C.size_t(len(planes)/3), bytesOf(dst))
}

// nativeRow does what row does.
func (n *Norm) nativeRow(dst []float32, src []byte) {
	_ = dst[len(src)-1] // C writes without looking
	C.gpustall_normalise(bytesOf(src), C.size_t(len(src)), floatsOf(n.factors[:]), floatsOf(dst))
}
