package npy

import (
	"encoding/binary"
	"math"

	"dev.gpustall/loader"
)

// Decode makes s.Pixels the bytes of the array in s.Raw: elements of h.Type, by channel, frame,
// row and column. An array that differs from h is an error.
func Decode(s *loader.Sample, h *Header) error {
	got, err := Parse(s.Raw)
	if err != nil {
		return err
	}
	if err := h.check(&got, len(s.Raw)); err != nil {
		return err
	}
	s.Pixels = s.Raw[got.Start : got.Start+got.Bytes]
	s.C, s.T, s.H, s.W = got.Shape.CTHW()
	return nil
}

// Transform turns arrays of one type into float32 and puts the channels last: THWC. Pixels
// (uint8) become 0 to 1. Floating point numbers stay as they are, since only their maker knows
// what they mean. There is no randomness.
type Transform struct{ Type Type }

// Host converts s.Pixels.
func (t Transform) Host(s *loader.Sample, _ *loader.RNG, dst []float32) {
	plane := max(s.T, 1) * s.H * s.W // elements of a channel
	done := 0
	if t.Type == Float16 && s.C == 3 {
		done = halves(dst, s.Pixels, plane)
	}
	for c := range s.C {
		if done == plane {
			break
		}
		t.row(dst[done*s.C+c:], s.C, s.Pixels[(c*plane+done)*t.Type.Size():(c+1)*plane*t.Type.Size()])
	}
}

// row converts elements to every step-th place of dst.
func (t Transform) row(dst []float32, step int, src []byte) {
	switch t.Type {
	case Uint8:
		for i, v := range src {
			dst[i*step] = float32(v) / 255
		}
	case Float16:
		for i := 0; i+1 < len(src); i += 2 {
			dst[i/2*step] = Half(binary.LittleEndian.Uint16(src[i:]))
		}
	default:
		for i := 0; i+3 < len(src); i += 4 {
			dst[i/4*step] = math.Float32frombits(binary.LittleEndian.Uint32(src[i:]))
		}
	}
}

// Device puts the channels of uint8 arrays last and leaves the division to the device. Arrays
// of other types are not sent to the device (loader.Info.Float).
func (t Transform) Device(s *loader.Sample, _ *loader.RNG, dst []byte, record []int32) int {
	clear(record)
	plane := max(s.T, 1) * s.H * s.W
	if t.Type != Uint8 {
		clear(dst)
		return len(dst)
	}
	for c := range s.C {
		for i, v := range s.Pixels[c*plane : (c+1)*plane] {
			dst[i*s.C+c] = v
		}
	}
	return len(dst)
}

// Normalisation returns zeros: arrays are not normalised.
func (Transform) Normalisation() (mean, std [4]float32) { return mean, [4]float32{1, 1, 1, 1} }

// Half returns the value of a float16 (IEEE 754 binary16).
func Half(h uint16) float32 {
	// Exponent and fraction, moved to float32's places, are too small by the difference of
	// the biases, 127-15. The product is exact, also for numbers below 2^-14.
	bits := uint32(h&0x7fff) << 13
	v := math.Float32bits(math.Float32frombits(bits) * 0x1p112)
	if h&0x7c00 == 0x7c00 { // infinite, or not a number
		v = bits | 0x7f800000
	}
	return math.Float32frombits(v | uint32(h&0x8000)<<16)
}

// ToHalf returns the float16 nearest to v; of two that are equally near, the even one.
func ToHalf(v float32) uint16 {
	bits := math.Float32bits(v)
	sign, bits := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case bits > 0x7f800000: // not a number
		return sign | 0x7e00
	case bits >= 0x477ff000: // nearer to 65536 than to 65504, the largest float16
		return sign | 0x7c00
	case bits < 0x38800000: // below 2^-14: the sum has float16's step of 2^-24 in its last place
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-0x3f000000)
	}
	bits += 0xfff + bits>>13&1 // half of the last place, less where it is even already
	return sign | uint16((bits-0x38000000)>>13)
}
