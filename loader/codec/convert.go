package codec

import (
	"image"
	"image/color"
	"image/draw"
)

// convert writes an image as RGB, as PIL's convert("RGB") does. Alpha is dropped, palettes are
// looked up, and colours of 16 bits keep their upper 8. Grey of 16 bits is clipped instead (see
// grey16).
func convert(dst []byte, img image.Image) {
	r := img.Bounds()
	w := r.Dx()
	rows := func(pix []byte, stride int, row func(dst, src []byte)) {
		for y := range r.Dy() {
			row(dst[y*w*3:(y+1)*w*3], pix[y*stride:])
		}
	}
	switch m := img.(type) {
	case *image.YCbCr:
		fromYCbCr(dst, m, image.Rect(0, 0, w, r.Dy()), nil)
	case *image.Gray:
		rows(m.Pix, m.Stride, grey)
	case *image.Gray16:
		rows(m.Pix, m.Stride, grey16)
	case *image.NRGBA:
		rows(m.Pix, m.Stride, rgbx)
	case *image.RGBA:
		rows(m.Pix, m.Stride, premultiplied)
	case *image.NRGBA64:
		rows(m.Pix, m.Stride, rgbx16)
	case *image.RGBA64:
		rows(m.Pix, m.Stride, rgbx16)
	case *image.CMYK:
		rows(m.Pix, m.Stride, cmyk)
	case *image.Paletted:
		rows(m.Pix, m.Stride, lookup(m.Palette))
	default: // no decoder here makes other kinds
		n := image.NewNRGBA(image.Rect(0, 0, w, r.Dy()))
		draw.Draw(n, n.Rect, img, r.Min, draw.Src)
		rows(n.Pix, n.Stride, rgbx)
	}
}

func grey(dst, src []byte) {
	for i := range len(dst) / 3 {
		d, v := dst[3*i:3*i+3:3*i+3], src[i]
		d[0], d[1], d[2] = v, v, v
	}
}

// grey16 converts 16-bit grey, high byte first. PIL clips it: every value above 255 is white.
// So a data set of such images is better stored with 8 bits.
func grey16(dst, src []byte) {
	for i := range len(dst) / 3 {
		v := src[2*i+1]
		if src[2*i] != 0 {
			v = 255
		}
		d := dst[3*i : 3*i+3 : 3*i+3]
		d[0], d[1], d[2] = v, v, v
	}
}

// rgbx drops the fourth channel.
func rgbx(dst, src []byte) {
	for len(dst) >= 3 && len(src) >= 4 {
		dst[0], dst[1], dst[2] = src[0], src[1], src[2]
		dst, src = dst[3:], src[4:]
	}
}

// rgbx16 converts four channels of 16 bits, high byte first.
func rgbx16(dst, src []byte) {
	for len(dst) >= 3 && len(src) >= 8 {
		dst[0], dst[1], dst[2] = src[0], src[2], src[4]
		dst, src = dst[3:], src[8:]
	}
}

// premultiplied divides by the alpha, if it is not 0.
func premultiplied(dst, src []byte) {
	for len(dst) >= 3 && len(src) >= 4 {
		dst[0], dst[1], dst[2] = src[0], src[1], src[2]
		if a := int(src[3]); a != 255 && a != 0 {
			for c := range 3 {
				dst[c] = byte(min(int(src[c])*255/a, 255))
			}
		}
		dst, src = dst[3:], src[4:]
	}
}

// cmyk converts four inks; 255 is full ink.
func cmyk(dst, src []byte) {
	for len(dst) >= 3 && len(src) >= 4 {
		light := 255 - src[3]
		dst[0], dst[1], dst[2] = absorb(light, src[0]), absorb(light, src[1]), absorb(light, src[2])
		dst, src = dst[3:], src[4:]
	}
}

// absorb returns the light that the black ink lets through, minus the part that another
// ink takes.
func absorb(light, ink byte) byte {
	v := int(ink)*int(light) + 128
	return light - byte((v+v>>8)>>8) // v/255, rounded
}

// printed converts a JPEG's row of cyan, magenta and yellow to RGB. black is stored inverted,
// as the light that passes. If the other three were stored directly, they are inverted too. If
// they were stored as YCbCr (YCCK), the conversion has made ink of them, as libjpeg's does.
func printed(row, black []byte, direct bool) {
	flip := byte(0)
	if direct {
		flip = 255
	}
	for i := range len(row) / 3 {
		o, light := row[3*i:3*i+3:3*i+3], black[i]
		o[0], o[1], o[2] = absorb(light, o[0]^flip), absorb(light, o[1]^flip), absorb(light, o[2]^flip)
	}
}

// interleave copies a part of three planes without converting it.
func interleave(dst []byte, m *image.YCbCr, part image.Rectangle) {
	w := part.Dx()
	for y := range part.Dy() {
		out, at := dst[y*w*3:(y+1)*w*3], (part.Min.Y+y)*m.YStride+part.Min.X
		a, b, c := m.Y[at:at+w], m.Cb[at:at+w], m.Cr[at:at+w]
		for x := range a {
			o := out[3*x : 3*x+3 : 3*x+3]
			o[0], o[1], o[2] = a[x], b[x], c[x]
		}
	}
}

// lookup returns a function that converts a row of palette indices. An index beyond the palette
// is black.
func lookup(p color.Palette) func(dst, src []byte) {
	var lut [256][3]byte
	for i, c := range p {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		lut[i&255] = [3]byte{n.R, n.G, n.B}
	}
	return func(dst, src []byte) {
		for i := range len(dst) / 3 {
			copy(dst[3*i:3*i+3], lut[src[i]][:])
		}
	}
}
