package jpeg

// MaxScans bounds the work that a small file can ask for, because a scan of a few bytes
// goes over the whole image. Encoders write about ten.
const MaxScans = 100

// band is the part of the coefficients that a progressive scan has: those from..to in zigzag
// order, from bit high (exclusive; 0: from the top) down to bit low.
type band struct{ from, to, high, low int }

// progressive decodes a progressive image (T.81, annex G), scan by scan into coefficients and
// at the end to pixels. It refuses an image that ends before all bits of all coefficients are
// there, because libjpeg would smooth its blocks.
func (d *Decoder) progressive() bool {
	d.layout()
	d.clearCoefficients()
	var known [4][64]int8 // the lowest bit known of each coefficient; 100: none
	for i := range known {
		for k := range known[i] {
			known[i][k] = 100
		}
	}
	for scans := 0; ; scans++ {
		end := false
		if d.segments(func() bool { end = d.peek() == eoi; return end || d.peek() == sos }) != nil {
			return false
		}
		if end {
			break
		}
		_, data := d.segment()
		comps, n, s, ok := d.progressiveHeader(data)
		if !ok || scans == MaxScans {
			return false
		}
		for _, i := range comps[:n] {
			for k := s.from; k <= s.to; k++ {
				if before := int(known[i][k]); s.high == 0 && before != 100 || s.high != 0 && before != s.high {
					return false
				}
				known[i][k] = int8(s.low)
			}
		}
		d.begun = true
		if !d.progressiveScan(comps[:n], s) {
			return false
		}
	}
	for i := range d.comp[:d.comps] {
		for k := range 64 {
			if known[i][k] != 0 {
				return false
			}
		}
	}
	return d.render()
}

// clearCoefficients gives each component coefficients of zero.
func (d *Decoder) clearCoefficients() {
	need := 0
	for i := range d.comp[:d.comps] {
		need += len(d.comp[i].pix)
	}
	if cap(d.coefs) < need {
		d.coefs = make([]int16, need+min(need/4, spare))
	}
	rest := d.coefs[:need]
	clear(rest)
	for i := range d.comp[:d.comps] {
		c := &d.comp[i]
		c.coef, rest = rest[:len(c.pix)], rest[len(c.pix):]
	}
}

// progressiveHeader reads a scan's header: the indices of n components, and the band.
func (d *Decoder) progressiveHeader(b []byte) (comps [4]int, n int, s band, ok bool) {
	if len(b) < 6 || b[0] < 1 || int(b[0]) > d.comps || len(b) != 4+2*int(b[0]) {
		return comps, 0, s, false
	}
	n = int(b[0])
	at := b[1+2*n:]
	s = band{int(at[0]), int(at[1]), int(at[2] >> 4), int(at[2] & 15)}
	if s.to > 63 || s.from > s.to || s.low > 13 || s.high != 0 && s.high != s.low+1 ||
		s.from == 0 && s.to != 0 || s.from > 0 && n > 1 {
		return comps, 0, s, false
	}
	next := 0
	for i := range n {
		for next < d.comps && d.comp[next].id != b[1+2*i] {
			next++
		}
		if next == d.comps {
			return comps, 0, s, false
		}
		c := &d.comp[next]
		c.dc, c.ac, c.pred = b[2+2*i]>>4, b[2+2*i]&15, 0
		if c.dc > 3 || c.ac > 3 || s.from == 0 && s.high == 0 && !d.dc[c.dc].ok || s.from > 0 && !d.ac[c.ac].ok || d.quant[c.q][0] == 0 {
			return comps, 0, s, false
		}
		comps[i] = next
		next++
	}
	return comps, n, s, true
}

// progressiveScan decodes the entropy-coded segments of a scan. In a scan of one component the
// blocks come row by row, without those that only fill an MCU.
func (d *Decoder) progressiveScan(comps []int, s band) bool {
	d.bits.reset(d.b, d.pos)
	d.run = 0
	left, next := d.every, byte(rst0)
	across, down := d.comp[0].width/d.comp[0].h, d.comp[0].lines/d.comp[0].v
	one := len(comps) == 1
	if one {
		c := &d.comp[comps[0]]
		across, down = blocks(d.Width, c.h, d.comp[0].h), blocks(d.Height, c.v, d.comp[0].v)
	}
	for my := range down {
		for mx := range across {
			if d.every > 0 {
				if left == 0 {
					if d.bits.overrun() || !d.bits.restart(next) {
						return false
					}
					left, next, d.run = d.every, after(next, 1), 0
					for i := range d.comp {
						d.comp[i].pred = 0
					}
				}
				left--
			}
			for _, i := range comps {
				c := &d.comp[i]
				if one {
					if !d.refineBlock(c, c.at(mx, my), s) {
						return false
					}
					continue
				}
				for v := range c.v {
					for h := range c.h {
						if !d.refineBlock(c, c.at(mx*c.h+h, my*c.v+v), s) {
							return false
						}
					}
				}
			}
		}
		if d.bits.overrun() || d.bits.end {
			return false
		}
	}
	if d.bits.n-d.bits.pad >= 8 { // bytes left over
		return false
	}
	d.pos = d.bits.pos
	return true
}

// blocks returns how many blocks a component with factor f of most has in one direction.
func blocks(pixels, f, most int) int { return ((pixels*f+most-1)/most + 7) / 8 }

func (c *component) at(x, y int) *[64]int16 { return (*[64]int16)(c.coef[64*(y*c.width+x):]) }

// refineBlock decodes the scan's part of a block.
func (d *Decoder) refineBlock(c *component, b *[64]int16, s band) bool {
	switch {
	case s.from == 0 && s.high == 0:
		size, ok := d.bits.symbol(&d.dc[c.dc&3].codes)
		if !ok || size > 11 {
			return false
		}
		c.pred += d.bits.value(int(size))
		b[0] = int16(c.pred << s.low)
	case s.from == 0:
		b[0] |= int16(d.bits.take(1) << s.low)
	case s.high == 0:
		return d.firstAC(c, b, s)
	default:
		return d.nextAC(c, b, s)
	}
	return true
}

// firstAC decodes the upper bits of a band (T.81, G.1.2.2).
func (d *Decoder) firstAC(c *component, b *[64]int16, s band) bool {
	if d.run > 0 {
		d.run--
		return true
	}
	for k := s.from; k <= s.to; k++ {
		symbol, ok := d.bits.symbol(&d.ac[c.ac&3].codes)
		if !ok {
			return false
		}
		zeros, size := int(symbol>>4), int(symbol&15)
		if size == 0 {
			if zeros < 15 {
				d.run = 1<<zeros + int(d.bits.take(zeros)) - 1
				return true
			}
			k += 15
			continue
		}
		if k += zeros; k > s.to {
			return false
		}
		b[natural[k&63]] = int16(d.bits.value(size) << s.low)
	}
	return true
}

// nextAC decodes one more bit of a band (T.81, G.1.2.3): for each coefficient that is not zero,
// and for those that become so.
func (d *Decoder) nextAC(c *component, b *[64]int16, s band) bool {
	bit := int16(1) << s.low
	k := s.from
	for ; d.run == 0 && k <= s.to; k++ {
		symbol, ok := d.bits.symbol(&d.ac[c.ac&3].codes)
		if !ok {
			return false
		}
		zeros, size := int(symbol>>4), int(symbol&15)
		var value int16
		switch {
		case size > 1:
			return false
		case size == 1:
			if value = -bit; d.bits.take(1) == 1 {
				value = bit
			}
		case zeros < 15:
			d.run = 1<<zeros + int(d.bits.take(zeros))
		}
		if d.run > 0 {
			break
		}
		if k = d.correct(b, k, s.to, zeros, bit); size == 1 {
			if k > s.to {
				return false
			}
			b[natural[k&63]] = value
		}
	}
	if d.run > 0 {
		d.correct(b, k, s.to, 64, bit)
		d.run--
	}
	return true
}

// correct reads a bit for each coefficient from k on that is not zero. It returns the place of
// the zero that comes after so many zeros.
func (d *Decoder) correct(b *[64]int16, k, to, zeros int, bit int16) int {
	for ; k <= to; k++ {
		p := &b[natural[k&63]]
		if *p == 0 {
			if zeros--; zeros < 0 {
				return k
			}
			continue
		}
		if d.bits.take(1) == 1 && *p&bit == 0 {
			if *p > 0 {
				*p += bit
			} else {
				*p -= bit
			}
		}
	}
	return k
}

// render dequantizes and transforms the wanted blocks.
func (d *Decoder) render() bool {
	for i := range d.comp[:d.comps] {
		c := &d.comp[i]
		q := &d.quant[c.q&3]
		for y := c.want.Min.Y; y < c.want.Max.Y; y++ {
			for x := c.want.Min.X; x < c.want.Max.X; x++ {
				b := c.at(x, y)
				cols, rest := uint32(1), int16(0)
				for k, v := range b {
					d.block[k] = int32(v) * q[k]
					if v != 0 {
						cols |= 1 << (k & 7)
					}
					if k > 0 {
						rest |= v
					}
				}
				out := c.pix[8*(y*c.stride+x):]
				if rest == 0 {
					flat(out, c.stride, d.block[0])
				} else {
					inverse(&d.block, cols, out, c.stride)
				}
			}
		}
	}
	return true
}
