package codec

import (
	"bytes"
	"image"
	stdjpeg "image/jpeg"
	"testing"

	"dev.gpustall/loader"
	"dev.gpustall/loader/codec/jpeg"
)

// TestNativeRandom: C and Go agree on encoded images with sizes around those of blocks, and on
// images that no encoder would write, damaged or not, refused or not. A decoded part equals
// the same part of the whole image.
func TestNativeRandom(t *testing.T) {
	if !jpeg.Native() {
		t.Skip("there is no C for this machine")
	}
	rng := loader.NewRNG(7, 8, 9)
	const tried = 600
	for i, maker := range []func(*testing.T, *loader.RNG) []byte{encodedJPEG, composedJPEG} {
		decoded := 0
		for range tried {
			b := maker(t, &rng)
			for damage := range 3 { // none, of the data or the header, and a cut
				switch damage {
				case 1:
					for range 1 + rng.IntN(3) {
						b[rng.IntN(len(b))] = byte(rng.Uint64())
					}
				case 2:
					b = b[:rng.IntN(len(b))]
				}
				whole, all := nativeAgrees(t, b, image.Rect(0, 0, 1<<16, 1<<16))
				x, y := rng.IntN(70), rng.IntN(70)
				got, part := nativeAgrees(t, b, image.Rect(x, y, x+1+rng.IntN(70), y+1+rng.IntN(70)))
				if (got == nil) != (whole == nil) {
					t.Fatalf("%d bytes: %v is refused: %t, the whole: %t", len(b), part, got == nil, whole == nil)
				}
				if got == nil {
					continue
				}
				decoded++
				for n := 3 * part.Dx(); len(got) > 0; got, part.Min.Y = got[n:], part.Min.Y+1 {
					if at := 3 * (part.Min.Y*all.Dx() + part.Min.X); !bytes.Equal(got[:n], whole[at:at+n]) {
						t.Fatalf("%d bytes: row %d of a part of %v, %v, is another", len(b), part.Min.Y, all, part)
					}
				}
			}
		}
		if decoded < tried {
			t.Errorf("maker %d: only %d of %d were decoded", i, decoded, 3*tried)
		}
	}
}

// encodedJPEG is what image/jpeg writes: 4:2:0 or grey.
func encodedJPEG(t *testing.T, rng *loader.RNG) []byte {
	m := speckled(1+rng.IntN(70), 1+rng.IntN(70), rng)
	if rng.IntN(3) == 0 {
		grey := image.NewGray(m.Bounds())
		for i := range grey.Pix {
			grey.Pix[i] = byte(rng.Uint64())
		}
		m = grey
	}
	var b bytes.Buffer
	if err := stdjpeg.Encode(&b, m, &stdjpeg.Options{Quality: 1 + rng.IntN(100)}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// composedJPEG has random sampling factors, tables, restart intervals and data. Nearly
// any bits are data.
func composedJPEG(_ *testing.T, rng *loader.RNG) []byte {
	b := []byte{0xff, 0xd8}
	segment := func(marker byte, data []byte) {
		n := len(data) + 2
		b = append(append(b, 0xff, marker, byte(n>>8), byte(n)), data...)
	}
	octets := func(n, most int) []byte {
		o := make([]byte, n)
		for i := range o {
			o[i] = byte(rng.IntN(most))
		}
		return o
	}
	switch rng.IntN(3) {
	case 0:
		segment(0xe0, []byte("JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"))
	case 1:
		segment(0xee, append([]byte("Adobe\x00\x64\x00\x00\x00\x00"), byte(rng.IntN(3))))
	}
	for id := range byte(4) { // divisors of 8 bits, small ones or not, or of 16
		wide, most := byte(rng.IntN(4)/3), 1+rng.IntN([]int{4, 254}[rng.IntN(2)])
		q := octets(64<<wide, most)
		for i := range q {
			q[i]++ // none is 0
		}
		segment(0xdb, append([]byte{wide<<4 | id}, q...))
	}
	comps := []int{1, 3, 3, 3, 4}[rng.IntN(5)]
	factors := []byte{0x11, 0x11, 0x21, 0x12, 0x22, 0x22, 0x41, 0x42}[rng.IntN(8)]
	w, h := 1+rng.IntN(70), 1+rng.IntN(70)
	if rng.IntN(20) == 0 {
		w, h = 500+rng.IntN(200), 1+rng.IntN(20) // more than a strip
	}
	frame := []byte{8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(comps)}
	scan := []byte{byte(comps)}
	for i := range comps {
		f := byte(0x11)
		if i == 0 || i == 3 {
			f = factors
		}
		frame = append(frame, byte(i), f, byte(rng.IntN(4)))
		scan = append(scan, byte(i), byte(rng.IntN(4)<<4|rng.IntN(4)))
	}
	segment(0xc0, frame)
	for id := range byte(8) {
		most := 16 // of DC, a symbol is a size
		if id >= 4 {
			most = 256
		}
		counts, n := randomCodes(rng)
		symbols := octets(n, most)
		full := rng.IntN(4) == 0 // blocks of large coefficients, which nearly overflow
		for i := range symbols {
			switch {
			case id >= 4 && full:
				symbols[i] = 8 + symbols[i]&3
			case id >= 4 && rng.IntN(2) == 0:
				symbols[i] &= 0x17 // so that not all are long runs of large values
			}
		}
		segment(0xc4, append(append([]byte{id&4<<2 | id&3}, counts[:]...), symbols...))
	}
	next := byte(0)
	if rng.IntN(2) == 0 {
		segment(0xdd, []byte{0, byte(1 + rng.IntN(9))})
	}
	segment(0xda, append(scan, 0, 63, 0))
	most := 1 + rng.IntN(256) // long codes begin with ones
	for range rng.IntN(6000) {
		v := byte(256 - 1 - rng.IntN(most))
		b = append(b, v)
		if v == 0xff {
			b = append(b, 0)
		}
		switch rng.IntN(500) {
		case 0, 1, 2:
			b = append(b, 0xff, 0xd0+next)
			next = (next + 1) & 7
		case 3:
			switch rng.IntN(50) {
			case 0: // a marker out of order
				b = append(b, 0xff, 0xd0+byte(rng.IntN(8)))
			case 1: // filled before one
				b = append(b, 0xff, 0xff, 0xff, 0xd0+next)
			case 2: // not a marker
				b = append(b, 0xff, byte(rng.IntN(256)))
			}
		}
	}
	return append(b, 0xff, 0xd9)
}

// randomCodes chooses how many codes there are of each length, 1 to 256 in all. They
// are short ones, long ones, or as many as there can be.
func randomCodes(rng *loader.RNG) (counts [16]byte, n int) {
	room, scarce := 1, 1+rng.IntN(8) // codes that there could be of this length
	for n == 0 {
		for i := range counts {
			room *= 2
			take := rng.IntN(room/scarce + 1)
			if i == 15 && rng.IntN(2) == 0 {
				take = room
			}
			take = min(take, 256-n, 255)
			counts[i], n, room = byte(take), n+take, room-take
		}
	}
	return counts, n
}
