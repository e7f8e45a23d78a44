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
