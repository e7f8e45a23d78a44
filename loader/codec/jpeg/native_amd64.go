//go:build cgo

package jpeg

/*
#cgo CFLAGS: -O3 -Wall
#include "scan_amd64.h"
#cgo noescape gpustall_jpeg_scan
#cgo nocallback gpustall_jpeg_scan
#cgo noescape gpustall_jpeg_rgb
#cgo nocallback gpustall_jpeg_rgb
*/
import "C"

import (
	"image"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// native says whether there is C for this processor.
var native = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2

// How says which code decodes.
func How() string {
	if native {
		return "C, with AVX2 and BMI2"
	}
	return "Go, which is slower: this processor lacks AVX2 or BMI2"
}

// C has the same tables.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(dcTable{})-C.sizeof_struct_codes]
	_ = [1]struct{}{}[unsafe.Sizeof(acTable{})-C.sizeof_struct_ac_table]
	_ = [1]struct{}{}[lookBits-C.look_bits]
	_ = [1]struct{}{}[pairBits-C.pair_bits]
)

func octets(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(b))) }

// nativeScan is scan in C. done is false if Go has to do it. That is so if the input ends,
// because whether the end is noticed depends on how far the reader reads ahead.
func (d *Decoder) nativeScan(rows int) (done bool) {
	s := C.struct_scan{
		length: C.int64_t(len(d.b)), pos: C.int64_t(d.pos), comps: C.int32_t(d.comps),
		across: C.int32_t(d.comp[0].width / d.comp[0].h), rows: C.int32_t(rows), every: C.int32_t(d.every),
	}
	for i := range d.comp[:d.comps] {
		c := &d.comp[i]
		s.plane[i] = C.struct_plane{
			h: C.int32_t(c.h), v: C.int32_t(c.v), dc: C.int32_t(c.dc & 3), ac: C.int32_t(c.ac & 3), q: C.int32_t(c.q & 3),
			at: C.int64_t(c.from), stride: C.int64_t(c.stride), min_x: C.int32_t(c.want.Min.X),
			max_x: C.int32_t(c.want.Max.X), min_y: C.int32_t(c.want.Min.Y), max_y: C.int32_t(c.want.Max.Y),
		}
		ac := &d.ac[c.ac&3]
		if !ac.paired {
			ac.pairs()
		}
		for k := range 64 {
			d.divisors[c.q&3][k] = uint16(d.quant[c.q&3][natural[k]])
		}
	}
	C.gpustall_jpeg_scan(&s, octets(d.b), octets(d.planes), (*C.struct_codes)(unsafe.Pointer(&d.dc)),
		(*C.struct_ac_table)(unsafe.Pointer(&d.ac)), (*C.uint16_t)(unsafe.Pointer(&d.divisors)))
	d.bits.reset(d.b, int(s.pos))
	return s.end == 0
}

// RGB writes the part as RGB, if there is C for this kind of image.
func (d *Decoder) RGB(dst []byte) bool {
	if !native || d.Plain || d.YCbCr == nil || d.Direct {
		return false
	}
	wide := 0
	switch d.YCbCr.SubsampleRatio {
	case image.YCbCrSubsampleRatio420:
		wide = C.half_wide | C.half_high
	case image.YCbCrSubsampleRatio422:
		wide = C.half_wide
	case image.YCbCrSubsampleRatio440:
		wide = C.half_high
	case image.YCbCrSubsampleRatio444:
	default:
		return false
	}
	if wide&C.half_wide != 0 && d.Width <= 4 {
		return false // too narrow to interpolate
	}
	p := d.Part
	if n := 3 * p.Dx() * p.Dy(); n == 0 || len(dst) < n || !p.In(image.Rect(0, 0, d.Width, d.Height)) {
		return false
	}
	part := C.struct_part{
		width: C.int64_t(d.Width), height: C.int64_t(d.Height), x: C.int64_t(p.Min.X), y: C.int64_t(p.Min.Y),
		w: C.int64_t(p.Dx()), h: C.int64_t(p.Dy()),
	}
	C.gpustall_jpeg_rgb(&part, C.int(wide), octets(d.comp[0].pix), octets(d.comp[1].pix), octets(d.comp[2].pix),
		C.int64_t(d.comp[0].stride), C.int64_t(d.comp[1].stride), octets(dst))
	return true
}
