package jpeg

// decodeBlock decodes the next block of a component, dequantizes it and transforms it to the
// pixels at offset at of its plane (T.81, F.2.2). It treats damaged data as libjpeg does: an
// invalid code is 0 and has 17 bits, and values after the last coefficient replace the last
// one.
func (d *Decoder) decodeBlock(c *component, at int) {
	r, ac, q := &d.bits, &d.ac[c.ac&3], &d.quant[c.q&3]
	acc, n := d.readDC(c)
	block := &d.block
	dcValue := int32(int16(c.pred * q[0])) // SIMD code has 16 bits
	any, cols := false, uint32(1)
	for k := 1; k < 64; k++ {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		i := acc >> (64 - lookBits)
		var value int32
		if e := ac.whole[i]; e != 0 {
			k += int(e >> 8 & 255)
			acc <<= e & 63
			n -= int(e & 63)
			value = e >> 16
		} else {
			e := ac.look[i]
			symbol, length := int(e&255), int(e>>8)
			if e == 0 {
				s, l := ac.long(acc)
				symbol, length = int(s), l
			}
			acc <<= length & 63
			n -= length
			size := symbol & 15
			if k += symbol >> 4; size == 0 {
				if symbol == 0xf0 { // sixteen zeros
					continue
				}
				break // the end of the block
			}
			value = extend(int32(acc>>((64-size)&63)), size)
			acc <<= size & 63
			n -= size
		}
		if !any {
			any = true
			clear(block[:])
		}
		z := natural[k&127]
		block[z] = int32(int16(value * q[z]))
		cols |= 1 << (z & 7)
	}
	r.acc, r.n = acc, n
	out := c.pix[at:]
	if !any {
		flat(out, c.stride, dcValue)
		return
	}
	block[0] = dcValue
	inverse(block, cols, out, c.stride)
}

// skipBlock parses a block outside the wanted part. It needs only the DC value, to which the
// next block's is relative.
func (d *Decoder) skipBlock(c *component) {
	r := &d.bits
	ac := &d.ac[c.ac&3]
	acc, n := d.readDC(c)
	for k := 1; k < 64; k++ {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		e := ac.look[acc>>(64-lookBits)]
		symbol, length := int(e&255), int(e>>8)
		if e == 0 {
			s, l := ac.long(acc)
			symbol, length = int(s), l
		}
		size := symbol & 15
		acc <<= (length + size) & 63
		n -= length + size
		if k += symbol >> 4; size == 0 && symbol != 0xf0 {
			break // the end of the block
		}
	}
	r.acc, r.n = acc, n
}

// readDC reads the DC value of a block into c.pred. It returns the bits that follow, as in
// bits, which keeps its own until the block is read.
func (d *Decoder) readDC(c *component) (acc uint64, n int) {
	r, dc := &d.bits, &d.dc[c.dc&3]
	if r.n < 48 {
		r.fill()
	}
	acc, n = r.acc, r.n
	e := dc.look[acc>>(64-lookBits)]
	size, length := int(e&255), int(e>>8)
	if e == 0 {
		s, l := dc.long(acc)
		size, length = int(s), l
	}
	acc <<= length & 63
	if n -= length + size; size > 0 {
		c.pred += extend(int32(acc>>((64-size)&63)), size)
		acc <<= size & 63
	}
	return acc, n
}
