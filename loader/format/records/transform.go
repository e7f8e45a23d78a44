package records

import (
	"unsafe"

	"dev.gpustall/loader"
)

// Transform passes records through: it moves exactly a record's bytes into the
// batch. A record of n bytes counts as ceil(n/4) float32 values (H=1,
// W=ceil(n/4), C=1), so that a batch on the host has the records' size.
type Transform struct{}

// Host copies s.Pixels into dst's memory and clears what is left of it.
func (Transform) Host(s *loader.Sample, _ *loader.RNG, dst []float32) {
	if len(dst) == 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)*4)
	clear(b[copy(b, s.Pixels):])
}

// Device copies as much of s.Pixels as dst holds. With device transforms a batch has one byte a
// value, so that is a quarter of the record. The knob has no meaning for records.
func (Transform) Device(s *loader.Sample, _ *loader.RNG, dst []byte, record []int32) int {
	clear(dst[copy(dst, s.Pixels):])
	clear(record)
	return len(dst)
}

// Normalisation returns zeros: records are not normalised.
func (Transform) Normalisation() (mean, std [4]float32) { return mean, [4]float32{1, 1, 1, 1} }
