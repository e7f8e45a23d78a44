package plot

import (
	"image/color"

	"dev.gpustall/engine/trace"
)

// series holds the xterm numbers of the causes' colours, by trace.CauseInfo.Colour. They are the
// colours of the screen's colour-blind theme: Okabe and Ito's palette in the nearest xterm colours.
// Causes beyond that palette have other colours. A test in engine/command keeps this table and the
// screen's the same.
var series = [...]uint8{33, 214, 175, 117, 245, 166, 203, 252, 80, 141, 227, 69, 250, 242, 229, 72, 111, 168, 183, 130, 133, 108, 152}

// The other colours, by Okabe and Ito's names (Color Universal Design, 2008).
var (
	Computing = xterm(XtermComputing) // of the device; the screen's
	Grey      = color.RGBA{0x99, 0x99, 0x99, 0xff}
	Blue      = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Orange    = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	SkyBlue   = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	Vermilion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}

	ink   = color.RGBA{0x1a, 0x1a, 0x1a, 0xff}
	faint = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	dim   = color.RGBA{0x55, 0x55, 0x55, 0xff}
)

// Distinct returns the colour of curve i.
func Distinct(i int) color.RGBA {
	all := [...]color.RGBA{Blue, Orange, Computing, Vermilion, SkyBlue, Grey, ink}
	return all[i%len(all)]
}

// XtermComputing is the xterm number of the colour of computing.
const XtermComputing = 36

// Xterm returns the xterm number of a cause's colour.
func Xterm(c trace.Cause) int { return int(series[int(c.Info().Colour)%len(series)]) }

// Cause returns a cause's colour.
func Cause(c trace.Cause) color.RGBA { return xterm(uint8(Xterm(c))) }

// xterm returns the colour of an xterm number from 16: a cube of 6 levels, then 24 greys.
func xterm(n uint8) color.RGBA {
	if n >= 232 {
		grey := 8 + 10*(n-232)
		return color.RGBA{grey, grey, grey, 0xff}
	}
	level := func(i uint8) uint8 {
		if i == 0 {
			return 0
		}
		return 55 + 40*i
	}
	n -= 16
	return color.RGBA{level(n / 36), level(n / 6 % 6), level(n % 6), 0xff}
}

// on returns the colour of text that is readable on a background.
func on(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	if 299*r+587*g+114*b > 1000*0x7000 { // luma of ITU-R BT.601
		return ink
	}
	return color.White
}

// lighter mixes a colour, of 16 bits a channel, with white, which has twice its weight.
func lighter(r, g, b uint32) color.Color {
	mix := func(v uint32) uint8 { return uint8((v + 2*0xffff) / 3 >> 8) }
	return color.RGBA{mix(r), mix(g), mix(b), 0xff}
}
