package jpeg

// The inverse DCT of C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT
// algorithms with 11 multiplications", ICASSP 1989, in the variant with 12 multiplications. It
// has the fixed point of libjpeg's default, "islow" (jidctint.c): constants of 13 bits, 2 bits
// of fraction between the passes. The same roundings in the same places give the same pixels.
const (
	constBits = 13
	passBits  = 2
)

// The constants times 1<<constBits, rounded.
const (
	f0298 = 2446
	f0390 = 3196
	f0541 = 4433
	f0765 = 6270
	f0899 = 7373
	f1175 = 9633
	f1501 = 12299
	f1847 = 15137
	f1961 = 16069
	f2053 = 16819
	f2562 = 20995
	f3072 = 25172
)

// flat does what inverse does for a block without AC coefficients.
func flat(out []byte, stride int, dc int32) {
	v := pixel((dc<<passBits + 1<<(passBits+2)) >> (passBits + 3))
	row := uint64(v) * 0x0101010101010101
	for y := range 8 {
		o := out[y*stride : y*stride+8 : y*stride+8]
		o[0], o[1], o[2], o[3] = byte(row), byte(row), byte(row), byte(row)
		o[4], o[5], o[6], o[7] = byte(row), byte(row), byte(row), byte(row)
	}
}

// pixel adds the level shift and clamps.
func pixel(v int32) byte { return byte(min(max(v+128, 0), 255)) }

// butterfly returns the one-dimensional transform, its results scaled by 1<<constBits.
func butterfly(x0, x1, x2, x3, x4, x5, x6, x7 int32) (y0, y1, y2, y3, y4, y5, y6, y7 int32) {
	// Even part.
	z := (x2 + x6) * f0541
	e2, e3 := z-x6*f1847, z+x2*f0765
	e0, e1 := (x0+x4)<<constBits, (x0-x4)<<constBits
	a0, a3, a1, a2 := e0+e3, e0-e3, e1+e2, e1-e2
	// Odd part.
	z1, z2, z3, z4 := x7+x1, x5+x3, x7+x3, x5+x1
	z5 := (z3 + z4) * f1175
	z1, z2 = -z1*f0899, -z2*f2562
	z3, z4 = z5-z3*f1961, z5-z4*f0390
	b0, b1 := x7*f0298+z1+z3, x5*f2053+z2+z4
	b2, b3 := x3*f3072+z2+z3, x1*f1501+z1+z4
	return a0 + b3, a1 + b2, a2 + b1, a3 + b0, a3 - b0, a2 - b1, a1 - b2, a0 - b3
}

// inverse transforms a block to 8 rows of pixels, first its columns, then its rows.
// cols has a bit for each column that is not all zero.
func inverse(b *[64]int32, cols uint32, out []byte, stride int) {
	for x := range 8 {
		if cols>>x&1 == 0 {
			continue
		}
		const round = 1 << (constBits - passBits - 1)
		y0, y1, y2, y3, y4, y5, y6, y7 := butterfly(b[x], b[8+x], b[16+x], b[24+x], b[32+x], b[40+x], b[48+x], b[56+x])
		b[x], b[8+x] = (y0+round)>>(constBits-passBits), (y1+round)>>(constBits-passBits)
		b[16+x], b[24+x] = (y2+round)>>(constBits-passBits), (y3+round)>>(constBits-passBits)
		b[32+x], b[40+x] = (y4+round)>>(constBits-passBits), (y5+round)>>(constBits-passBits)
		b[48+x], b[56+x] = (y6+round)>>(constBits-passBits), (y7+round)>>(constBits-passBits)
	}
	for y := range 8 {
		const shift, round = constBits + passBits + 3, 1 << (constBits + passBits + 2)
		i := (*[8]int32)(b[8*y:])
		o := out[y*stride : y*stride+8 : y*stride+8]
		y0, y1, y2, y3, y4, y5, y6, y7 := butterfly(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7])
		o[0], o[1] = pixel((y0+round)>>shift), pixel((y1+round)>>shift)
		o[2], o[3] = pixel((y2+round)>>shift), pixel((y3+round)>>shift)
		o[4], o[5] = pixel((y4+round)>>shift), pixel((y5+round)>>shift)
		o[6], o[7] = pixel((y6+round)>>shift), pixel((y7+round)>>shift)
	}
}
