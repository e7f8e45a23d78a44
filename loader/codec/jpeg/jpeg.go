// Package jpeg decodes the JPEGs of nearly all image data sets into planes: Huffman coding and
// 8 bits, sequential in one scan or progressive. The result equals libjpeg-turbo's default bit
// by bit. The decoder does not allocate once its memory has the size of the images. Every
// other JPEG is ErrUnsupported, and is left to the standard library's image/jpeg.
//
// Damaged data in a sequential image are no error unless the file ends in them. libjpeg only
// warns, which few programs notice, and decodes what it can. This package does so too. The
// result is the same up to the damage and nearly the same after it.
//
// A caller may want only a part of an image. Blocks outside are only parsed, and the rows after
// it are not read. If there is C for the processor (Native), it decodes the sequential images
// and converts most to RGB, with the same result as Go to the bit.
//
// References: ITU-T T.81 (the standard; comments name its sections), JFIF 1.02, and for
// the inverse DCT the paper named there.
package jpeg

import (
	"errors"
	"image"
)

// ErrUnsupported is returned for an image that this decoder leaves to others.
var ErrUnsupported = errors.New("not a JPEG of a usual kind, or damaged")

// Decoder decodes one image after another. Its memory is reused.
type Decoder struct {
	// Width and Height are the image's, after Header.
	Width, Height int
	// Part is the wanted part of the image. Header sets it to all of the image; the caller may
	// change it before Decode. The planes hold nothing useful outside of it.
	Part image.Rectangle
	// Plain switches C off, for tests.
	Plain bool
	// Gray or YCbCr is the image, after Decode; the other is nil. The planes are
	// overwritten by the next image.
	Gray  *image.Gray
	YCbCr *image.YCbCr
	// Direct is set if the planes called Y, Cb and Cr really are red, green and blue, or cyan,
	// magenta and yellow. They are then not subsampled.
	Direct bool
	// Black is the fourth plane, with the stride of Y, or nil. With it, the other
	// planes are inks; 255 is no ink.
	Black []byte

	b     []byte
	pos   int
	comp  [4]component
	comps int
	prog  bool // progressive
	jfif  bool
	adobe int // the colour transform of the Adobe segment; -1 without one
	ratio image.YCbCrSubsampleRatio
	quant [4][64]int32 // in natural order; [0] is 0 if there is no table
	dc    [4]dcTable
	ac    [4]acTable
	every int // MCUs in a restart interval; 0: none

	bits     bits
	divisors [4][64]uint16 // of this image, in zigzag order
	block    [64]int32
	planes   []byte
	coefs    []int16 // of a progressive image
	begun    bool    // a scan of it has been read
	run      int     // blocks of this scan that hold nothing more (EOBRUN)
	gray     image.Gray
	ycbcr    image.YCbCr
}

// component is a plane.
type component struct {
	id           byte
	h, v         int // sampling factors
	q, dc, ac    byte
	pred         int32 // the last DC value
	pix          []byte
	from         int // where in the decoder's planes pix begins
	stride       int
	width, lines int             // in blocks, of whole MCUs
	coef         []int16         // blocks of 64 in natural order, if progressive
	want         image.Rectangle // in blocks
}

// wants reports whether the block belongs to the wanted part.
func (c *component) wants(x, y int) bool {
	return c.want.Min.X <= x && x < c.want.Max.X && c.want.Min.Y <= y && y < c.want.Max.Y
}

// Markers (T.81, table B.1).
const (
	sof0  = 0xc0 // baseline
	sof1  = 0xc1 // extended sequential; the same but for more tables
	sof2  = 0xc2 // progressive
	dht   = 0xc4
	rst0  = 0xd0
	rst7  = 0xd7
	soi   = 0xd8
	eoi   = 0xd9
	sos   = 0xda
	dqt   = 0xdb
	dri   = 0xdd
	app0  = 0xe0
	app14 = 0xee
	com   = 0xfe
)

// Header reads up to the frame's header, which has the size. It keeps the bytes until Decode.
func (d *Decoder) Header(b []byte) error {
	d.b, d.pos = b, 2
	d.comps, d.prog, d.jfif, d.adobe, d.every = 0, false, false, -1, 0
	d.Gray, d.YCbCr, d.Direct, d.Black, d.begun = nil, nil, false, nil, false
	for i := range 4 {
		d.quant[i][0], d.dc[i].ok, d.ac[i].ok = 0, false, false
	}
	if len(b) < 4 || b[0] != 0xff || b[1] != soi {
		return ErrUnsupported
	}
	err := d.segments(func() bool { return d.comps > 0 })
	d.Part = image.Rect(0, 0, d.Width, d.Height)
	return err
}

// Decode decodes the image whose header was read.
func (d *Decoder) Decode() error {
	if d.comps == 0 {
		return ErrUnsupported
	}
	decode := d.sequential
	if d.prog {
		decode = d.progressive
	}
	if !decode() {
		return ErrUnsupported
	}
	if d.comps == 1 {
		d.gray = image.Gray{Pix: d.comp[0].pix, Stride: d.comp[0].stride, Rect: image.Rect(0, 0, d.Width, d.Height)}
		d.Gray = &d.gray
		return nil
	}
	d.ycbcr = image.YCbCr{
		Y: d.comp[0].pix, Cb: d.comp[1].pix, Cr: d.comp[2].pix, YStride: d.comp[0].stride, CStride: d.comp[1].stride,
		SubsampleRatio: d.ratio, Rect: image.Rect(0, 0, d.Width, d.Height),
	}
	d.YCbCr = &d.ycbcr
	if d.comps == 4 {
		d.Black = d.comp[3].pix
	}
	return nil
}

// Trim forgets the image. It frees the decoder's memory if that is more than limit bytes.
func (d *Decoder) Trim(limit int) {
	if cap(d.planes)+2*cap(d.coefs) > limit {
		d.planes, d.coefs = nil, nil
	}
	clear(d.comp[:])
	d.b, d.bits, d.comps = nil, bits{}, 0
	d.Gray, d.YCbCr, d.Black = nil, nil, nil
	d.gray, d.ycbcr = image.Gray{}, image.YCbCr{}
}

// sequential decodes an image of one scan.
func (d *Decoder) sequential() bool {
	if d.segments(func() bool { return d.peek() == sos }) != nil {
		return false
	}
	_, data := d.segment()
	if !d.scanHeader(data) {
		return false
	}
	d.layout()
	at := d.pos
	if good, sure := d.scan(d.lastRow()); sure {
		return good
	}
	// The data after the part are damaged.
	for i := range d.comp[:d.comps] {
		d.comp[i].pred = 0
	}
	d.pos = at
	good, _ := d.scan(d.comp[0].lines / d.comp[0].v)
	return good
}

// ahead is how many bytes C may read past the end of a plane.
const ahead = 64

// layout gives each component a plane of whole MCUs.
func (d *Decoder) layout() {
	mw, mh := 8*d.comp[0].h, 8*d.comp[0].v // of an MCU in pixels
	across, down := (d.Width+mw-1)/mw, (d.Height+mh-1)/mh
	need := 0
	for i := range d.comp[:d.comps] {
		c := &d.comp[i]
		c.width, c.lines = across*c.h, down*c.v
		c.stride = 8 * c.width
		need += 64 * c.width * c.lines
	}
	if cap(d.planes) < need+ahead {
		d.planes = make([]byte, need+min(need/4, spare)+ahead)
	}
	rest := d.planes[:need]
	for i := range d.comp[:d.comps] {
		c := &d.comp[i]
		n := 64 * c.width * c.lines
		c.from = need - len(rest)
		c.pix, rest = rest[:n:n], rest[n:]
		c.want = d.wanted(c)
	}
}

// wanted returns the blocks of a component that the part needs. If it is subsampled, upsampling
// reads one more sample on each side.
func (d *Decoder) wanted(c *component) image.Rectangle {
	whole := image.Rect(0, 0, d.Width, d.Height)
	if whole.In(d.Part) {
		return image.Rect(0, 0, c.width, c.lines)
	}
	r := d.Part.Intersect(whole)
	fx, fy := d.comp[0].h/c.h, d.comp[0].v/c.v
	r.Min.X, r.Max.X = r.Min.X/fx, (r.Max.X+fx-1)/fx
	r.Min.Y, r.Max.Y = r.Min.Y/fy, (r.Max.Y+fy-1)/fy
	if fx > 1 {
		r.Min.X, r.Max.X = r.Min.X-1, r.Max.X+1
	}
	if fy > 1 {
		r.Min.Y, r.Max.Y = r.Min.Y-1, r.Max.Y+1
	}
	return image.Rect(max(r.Min.X, 0)/8, max(r.Min.Y, 0)/8, min((r.Max.X+7)/8, c.width), min((r.Max.Y+7)/8, c.lines))
}

// lastRow returns the row of MCUs after the last one that the part needs.
func (d *Decoder) lastRow() int {
	last := 0
	for i := range d.comp[:d.comps] {
		c := &d.comp[i]
		last = max(last, (c.want.Max.Y+c.v-1)/c.v)
	}
	return last
}

// scan decodes the entropy-coded segments (T.81, F.2) of so many rows of MCUs. If they end too
// early at a marker, the rest is grey, as in libjpeg. If the file ends, it is damaged. good
// says whether the file is intact; sure says whether that is certain without decoding the
// remaining rows.
func (d *Decoder) scan(rows int) (good, sure bool) {
	across, down := d.comp[0].width/d.comp[0].h, d.comp[0].lines/d.comp[0].v
	if native && !d.Plain && d.nativeScan(rows) {
		if rows == down {
			return d.bits.trailer(), true
		}
		return true, d.bits.ends()
	}
	d.bits.reset(d.b, d.pos)
	left, next, over := d.every, byte(rst0), false
	for my := range rows {
		for mx := range across {
			if d.every > 0 {
				if left == 0 {
					over = !d.bits.restart(next) && over
					left, next = d.every, after(next, 1)
					for i := range d.comp {
						d.comp[i].pred = 0
					}
				}
				left--
			}
			for i := range d.comp[:d.comps] {
				c := &d.comp[i]
				for v := range c.v {
					for h := range c.h {
						x, y := mx*c.h+h, my*c.v+v
						at := 8 * (y*c.stride + x)
						switch wanted := c.wants(x, y); {
						case over && wanted:
							flat(c.pix[at:], c.stride, 0)
						case over:
						case wanted:
							d.decodeBlock(c, at)
						default:
							d.skipBlock(c)
						}
					}
				}
			}
			over = over || d.bits.overrun()
		}
		if d.bits.end {
			return false, rows == down
		}
	}
	if rows == down {
		return d.bits.trailer(), true
	}
	return true, d.bits.ends()
}

// Native reports whether C decodes sequential images and converts most of them. That needs a
// build with C and a processor with AVX2 and BMI2.
func Native() bool { return native }
