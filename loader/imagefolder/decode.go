package imagefolder

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"

	"dev.gpustall/loader"
)

// maxPixels bounds an image, as PIL's bomb check does (178,956,970 there).
const maxPixels = 178956970

// decode turns the JPEG or PNG in s.Raw, told apart by content, into RGB pixels.
// Alpha is dropped, as PIL's convert("RGB") drops it; 16 bits become 8.
func decode(s *loader.Sample) error {
	b := s.Raw
	var config func(io.Reader) (image.Config, error)
	var full func(io.Reader) (image.Image, error)
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		config, full = jpeg.DecodeConfig, jpeg.Decode
	case bytes.HasPrefix(b, []byte("\x89PNG")):
		config, full = png.DecodeConfig, png.Decode
	case len(b) == 0:
		return errors.New("the file is empty")
	default:
		return errors.New("neither a JPEG nor a PNG")
	}
	c, err := config(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("damaged image: %w", err)
	}
	if c.Width <= 0 || c.Height <= 0 || c.Width > maxPixels/c.Height {
		return fmt.Errorf("an image of %d x %d pixels, more than the %d allowed", c.Width, c.Height, maxPixels)
	}
	img, err := full(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("damaged image: %w", err)
	}
	r := img.Bounds()
	s.H, s.W, s.C = r.Dy(), r.Dx(), 3
	n := s.H * s.W * 3
	if cap(s.Pixels) < n {
		s.Pixels = make([]byte, n+n/4)
	}
	s.Pixels = s.Pixels[:n]
	switch img := img.(type) {
	case *image.YCbCr:
		fromYCbCr(s.Pixels, img)
	case *image.Gray:
		fromGray(s.Pixels, img)
	case *image.RGBA:
		for y := range s.H {
			from4(s.Pixels[y*s.W*3:(y+1)*s.W*3], img.Pix[y*img.Stride:])
		}
	case *image.NRGBA:
		for y := range s.H {
			from4(s.Pixels[y*s.W*3:(y+1)*s.W*3], img.Pix[y*img.Stride:])
		}
	case *image.Paletted:
		fromPaletted(s.Pixels, img)
	default:
		fromAny(s.Pixels, img)
	}
	return nil
}

// fromYCbCr converts by JFIF's equations in 16.16 fixed point:
// R = Y + 1.402 Cr, G = Y - 0.344136 Cb - 0.714136 Cr, B = Y + 1.772 Cb.
func fromYCbCr(dst []byte, img *image.YCbCr) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	double := img.SubsampleRatio == image.YCbCrSubsampleRatio420 || img.SubsampleRatio == image.YCbCrSubsampleRatio422
	if img.Rect.Min != (image.Point{}) || (!double && img.SubsampleRatio != image.YCbCrSubsampleRatio444) {
		fromAny(dst, img)
		return
	}
	for y := range h {
		out := dst[y*w*3 : (y+1)*w*3]
		luma := img.Y[y*img.YStride:][:w]
		at := img.COffset(0, y)
		if double {
			n := (w + 1) / 2
			row420(out, luma, img.Cb[at:][:n], img.Cr[at:][:n])
		} else {
			row444(out, luma, img.Cb[at:][:w], img.Cr[at:][:w])
		}
	}
}

// row420 converts a row whose chroma counts for two pixels: the products are
// computed once for both.
func row420(out, luma, cb, cr []byte) {
	cr = cr[:len(cb)]
	for i, b := range cb {
		u, v := int32(b)-128, int32(cr[i])-128
		dr, dg, db := 91881*v+1<<15, 1<<15-22554*u-46802*v, 116130*u+1<<15
		yy := int32(luma[0]) << 16
		out[0], out[1], out[2] = clamp(yy+dr), clamp(yy+dg), clamp(yy+db)
		if len(luma) < 2 {
			return
		}
		yy = int32(luma[1]) << 16
		out[3], out[4], out[5] = clamp(yy+dr), clamp(yy+dg), clamp(yy+db)
		luma, out = luma[2:], out[6:]
	}
}

func row444(out, luma, cb, cr []byte) {
	cb, cr = cb[:len(luma)], cr[:len(luma)]
	for i, l := range luma {
		u, v := int32(cb[i])-128, int32(cr[i])-128
		yy := int32(l)<<16 + 1<<15
		o := out[i*3 : i*3+3 : i*3+3]
		o[0], o[1], o[2] = clamp(yy+91881*v), clamp(yy-22554*u-46802*v), clamp(yy+116130*u)
	}
}

// clamp takes 16.16 fixed point to a byte.
func clamp(v int32) byte {
	if uint32(v)&0xff000000 == 0 {
		return byte(v >> 16)
	}
	return byte(^(v >> 31)) // negative to 0, the rest to 255
}

func fromGray(dst []byte, img *image.Gray) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	for y := range h {
		out := dst[y*w*3 : (y+1)*w*3]
		for i, v := range img.Pix[y*img.Stride:][:w] {
			o := out[i*3 : i*3+3 : i*3+3]
			o[0], o[1], o[2] = v, v, v
		}
	}
}

// from4 drops the fourth channel of a row.
func from4(dst, src []byte) {
	for len(dst) >= 3 && len(src) >= 4 {
		dst[0], dst[1], dst[2] = src[0], src[1], src[2]
		dst, src = dst[3:], src[4:]
	}
}

func fromPaletted(dst []byte, img *image.Paletted) {
	var lut [256][3]byte // an index beyond the palette is black
	for i, c := range img.Palette {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		lut[i&255] = [3]byte{n.R, n.G, n.B}
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	for y := range h {
		out := dst[y*w*3 : (y+1)*w*3]
		for i, v := range img.Pix[y*img.Stride:][:w] {
			copy(out[i*3:i*3+3], lut[v][:])
		}
	}
}

// fromAny is the slow way: CMYK, 16 bits, and rare subsamplings.
func fromAny(dst []byte, img image.Image) {
	r := img.Bounds()
	n := image.NewNRGBA(image.Rect(0, 0, r.Dx(), r.Dy()))
	draw.Draw(n, n.Rect, img, r.Min, draw.Src)
	for y := range r.Dy() {
		from4(dst[y*r.Dx()*3:(y+1)*r.Dx()*3], n.Pix[y*n.Stride:])
	}
}
