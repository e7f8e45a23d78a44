package codec

import (
	"errors"
	"image"
)

var errAnimated = errors.New("an animated WebP")

// animated reports the animation flag of the extended header, which comes first
// (https://developers.google.com/speed/webp/docs/riff_container).
func animated(b []byte) bool {
	return len(b) > 20 && string(b[12:16]) == "VP8X" && b[20]&2 != 0
}

// fromVP8 converts a lossy WebP's planes as libwebp does, and hence PIL. Chroma goes through
// the triangle filter with a rounding of its own (src/dsp/upsampling.c of libwebp). Colours
// follow ITU-R BT.601 with luma from 16 to 235, while JPEG's luma is from 0 to 255
// (src/dsp/yuv.h). Package vp8 calls the planes YCbCr nevertheless.
func fromVP8(dst []byte, img *image.YCbCr) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	cw, ch := (w+1)/2, (h+1)/2
	for y := range h {
		near, far := y/2*img.CStride, min(max(y/2-1+y%2*2, 0), ch-1)*img.CStride
		rowVP8(dst[y*w*3:(y+1)*w*3], img.Y[y*img.YStride:][:w],
			img.Cb[near:][:cw], img.Cr[near:][:cw], img.Cb[far:][:cw], img.Cr[far:][:cw])
	}
}

// rowVP8 converts a row between two chroma rows. Two pixels lie between the columns x and x+1.
// The first pixel and, if the width is even, the last one lie outside and are interpolated in
// one direction only.
func rowVP8(out, luma, cb, cr, fb, fr []byte) {
	cr, fb, fr = cr[:len(cb)], fb[:len(cb)], fr[:len(cb)]
	n, f := pack(cb[0], cr[0]), pack(fb[0], fr[0]) // near and far at the left
	putVP8(out, luma[0], (3*n+f+2*both)>>2)
	luma, out = luma[1:], out[3:]
	for x := 1; x < len(cb); x++ {
		m, g := pack(cb[x], cr[x]), pack(fb[x], fr[x]) // and at the right
		sum := n + f + m + g + 8*both
		putVP8(out, luma[0], ((sum+2*(m+f))>>3+n)>>1)
		if len(luma) < 2 {
			return
		}
		putVP8(out[3:], luma[1], ((sum+2*(n+g))>>3+m)>>1)
		n, f = m, g
		luma, out = luma[2:], out[6:]
	}
	if len(luma) > 0 {
		putVP8(out, luma[0], (3*n+f+2*both)>>2)
	}
}

// putVP8 writes the RGB of a pixel, in libwebp's fixed point: the factors 1.164,
// 1.596, 0.392, 0.813 and 2.017 have 14 bits; the products lose 8 and the sums 6.
func putVP8(out []byte, y byte, c uint32) {
	l, u, v := int32(y)*19077>>8, int32(byte(c)), int32(byte(c>>16))
	o := out[:3:3]
	o[0] = clamp6(l + v*26149>>8 - 14234)
	o[1] = clamp6(l - u*6419>>8 - v*13320>>8 + 8708)
	o[2] = clamp6(l + u*33050>>8 - 17685)
}

// clamp6 converts fixed point with 6 bits to a byte, rounded down.
func clamp6(v int32) byte { return byte(min(max(v>>6, 0), 255)) }
