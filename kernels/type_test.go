package kernels

import (
	"math"
	"testing"
)

func TestF16KnownValues(t *testing.T) {
	for _, c := range []struct {
		x float32
		h uint16
	}{
		{0, 0}, {1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {65519, 0x7bff}, {65520, 0x7c00},
		{0x1p-14, 0x0400}, {0x1p-24, 0x0001}, {0x1p-25, 0x0000}, {0x1.8p-25, 0x0001}, {0x1.8p-24, 0x0002},
		{1 + 0x1p-11, 0x3c00}, {1 + 0x1.8p-10, 0x3c02}, {float32(math.Inf(-1)), 0xfc00},
	} {
		if h := F16Bits(c.x); h != c.h {
			t.Errorf("F16Bits(%g) = %#04x, want %#04x", c.x, h, c.h)
		}
	}
	if h := F16Bits(float32(math.NaN())); h&0x7c00 != 0x7c00 || h&0x3ff == 0 {
		t.Errorf("F16Bits(NaN) = %#04x, not a NaN", h)
	}
}

// Every 16-bit pattern but NaNs must survive a round trip.
func TestHalfRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		if f := F16Float(h); f == f && F16Bits(f) != h {
			t.Fatalf("binary16 %#04x -> %g -> %#04x", h, f, F16Bits(f))
		}
		if f := BF16Float(h); f == f && BF16Bits(f) != h {
			t.Fatalf("bfloat16 %#04x -> %g -> %#04x", h, f, BF16Bits(f))
		}
	}
}

// Rounding picks the nearest neighbour, and the even one when halfway.
func TestHalfNearest(t *testing.T) {
	for i := range 0x7bff {
		lo, hi := F16Float(uint16(i)), F16Float(uint16(i+1))
		mid, even := (lo+hi)/2, uint16(i+i&1)
		if got := F16Bits(mid); got != even {
			t.Fatalf("halfway between %#04x and its successor gives %#04x, want %#04x", i, got, even)
		}
		if got := F16Bits(math.Nextafter32(mid, hi)); got != uint16(i+1) {
			t.Fatalf("just above halfway gives %#04x, want %#04x", got, i+1)
		}
	}
	if BF16Bits(1+0x1p-8) != 0x3f80 || BF16Bits(1+0x1.8p-7) != 0x3f82 {
		t.Error("bfloat16 ties do not go to even")
	}
}
