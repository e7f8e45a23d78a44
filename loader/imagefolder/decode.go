package imagefolder

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	stdjpeg "image/jpeg"
	"image/png"
	"io"
	"sync"

	"dev.gpustall/loader"
	"dev.gpustall/loader/imagefolder/jpeg"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// maxPixels bounds an image, as PIL's bomb check does (178,956,970 there).
const maxPixels = 178956970

// codec is a form of image, known by how the file begins, whatever its name.
type codec struct {
	name   string
	magic  string // ? stands for any byte
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var codecs = []codec{
	{"JPEG", "\xff\xd8", stdjpeg.DecodeConfig, stdjpeg.Decode},
	{"PNG", "\x89PNG", png.DecodeConfig, png.Decode},
	{"WebP", "RIFF????WEBP", webp.DecodeConfig, webp.Decode},
	{"BMP", "BM", bmp.DecodeConfig, bmp.Decode},
	{"TIFF", "II*\x00", tiff.DecodeConfig, tiff.Decode},
	{"TIFF", "MM\x00*", tiff.DecodeConfig, tiff.Decode},
}

var errUnknown = errors.New("neither a JPEG, PNG, WebP, BMP, TIFF, PPM nor PGM")

var (
	startOfScan = []byte{0xff, 0xda} // which no coded data contain (T.81, B.1.1.5)
	errScans    = fmt.Errorf("a progressive JPEG of more than %d scans", jpeg.MaxScans)
)

func (c *codec) matches(b []byte) bool {
	if len(b) < len(c.magic) {
		return false
	}
	for i := range len(c.magic) {
		if c.magic[i] != '?' && c.magic[i] != b[i] {
			return false
		}
	}
	return true
}

// decode turns the image in s.Raw into RGB pixels, as PIL's convert("RGB") does.
func decode(s *loader.Sample) error {
	b := s.Raw
	if len(b) == 0 {
		return errors.New("the file is empty")
	}
	if len(b) > 2 && b[0] == 'P' && '1' <= b[1] && b[1] <= '6' {
		if err := netpbm(s); err != nil {
			return fmt.Errorf("damaged PPM or PGM: %w", err)
		}
		return nil
	}
	if handled, err := decodeJPEG(s); handled {
		return err
	}
	for i := range codecs {
		if c := &codecs[i]; c.matches(b) {
			return c.read(s)
		}
	}
	return errUnknown
}

// decoders are at rest here between images, each with keptBytes at the most.
var decoders = sync.Pool{New: func() any { return new(jpeg.Decoder) }}

// keptBytes are the planes of 44 Mpixel with chroma of half the size, or of 14 Mpixel
// if they are progressive.
const keptBytes = 64 << 20

// decodeJPEG decodes the usual JPEG; handled is false if s holds something else,
// or if it is damaged, which image/jpeg says in words.
func decodeJPEG(s *loader.Sample) (handled bool, err error) {
	d := decoders.Get().(*jpeg.Decoder)
	defer func() {
		d.Trim(keptBytes)
		decoders.Put(d)
	}()
	if d.Header(s.Raw) != nil {
		return false, nil
	}
	if err := checkSize(d.Width, d.Height); err != nil {
		return true, fmt.Errorf("cannot read this JPEG: %w", err)
	}
	if d.Decode() != nil {
		if bytes.Count(s.Raw, startOfScan) > jpeg.MaxScans {
			return true, errScans // image/jpeg would go through them all
		}
		return false, nil
	}
	prepare(s, d.Width, d.Height)
	if d.Gray != nil {
		for y := range s.H {
			grey(s.Pixels[y*s.W*3:(y+1)*s.W*3], d.Gray.Pix[y*d.Gray.Stride:])
		}
		return true, nil
	}
	if d.Direct {
		interleave(s.Pixels, d.YCbCr)
	} else {
		fromYCbCr(s.Pixels, d.YCbCr)
	}
	if d.Black != nil {
		for y := range s.H {
			row := s.Pixels[y*s.W*3 : (y+1)*s.W*3]
			printed(row, d.Black[y*d.YCbCr.YStride:], d.Direct)
		}
	}
	return true, nil
}

func (c *codec) read(s *loader.Sample) error {
	if c.name == "WebP" && animated(s.Raw) {
		return errAnimated
	}
	cfg, err := c.config(bytes.NewReader(s.Raw))
	if err == nil {
		err = checkSize(cfg.Width, cfg.Height)
	}
	var img image.Image
	if err == nil {
		img, err = c.guarded(s.Raw)
	}
	if err != nil && truncated(err) {
		if errors.Is(err, io.EOF) { // some decoders say so in the middle of an image
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("this %s is truncated: %w", c.name, err)
	}
	if err != nil {
		return fmt.Errorf("cannot read this %s: %w", c.name, err)
	}
	r := img.Bounds()
	if err := checkSize(r.Dx(), r.Dy()); err != nil {
		return fmt.Errorf("cannot read this %s: %w", c.name, err)
	}
	prepare(s, r.Dx(), r.Dy())
	switch m := img.(type) {
	case *image.YCbCr:
		if c.name == "WebP" {
			fromVP8(s.Pixels, m)
			return nil
		}
	case *image.NYCbCrA: // a WebP's
		fromVP8(s.Pixels, &m.YCbCr)
		return nil
	case *image.Gray:
		if c.name == "TIFF" {
			unreverse(s.Raw, m)
		}
	}
	convert(s.Pixels, img)
	return nil
}

// truncated reports whether a decoder ran out of data. image/jpeg pads its own error.
func truncated(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, stdjpeg.FormatError("short Huffman data"))
}

// guarded turns a decoder's panic into an error, so that the file is named.
func (c *codec) guarded(b []byte) (img image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its decoder panicked: %v", p)
		}
	}()
	return c.decode(bytes.NewReader(b))
}

// mend says what to do about a file that decode refuses.
func mend(err error) string {
	if _, ok := errors.AsType[stdjpeg.UnsupportedError](err); ok {
		return mendKind
	}
	if _, ok := errors.AsType[png.UnsupportedError](err); ok {
		return mendKind
	}
	if _, ok := errors.AsType[tiff.UnsupportedError](err); ok {
		return mendKind
	}
	if errors.Is(err, bmp.ErrUnsupported) || errors.Is(err, errAnimated) || errors.Is(err, errScans) || errors.Is(err, errUnknown) {
		return mendKind
	}
	return "replace or remove the file"
}

const mendKind = "save it as a plain RGB PNG or JPEG, or remove the file"

// checkSize refuses what cannot be held in memory.
func checkSize(w, h int) error {
	if w <= 0 || h <= 0 {
		return fmt.Errorf("%d x %d pixels: there is nothing in it", w, h)
	}
	if w > maxPixels/h {
		return fmt.Errorf("%d x %d pixels, more than the %d allowed, which is PIL's limit too: scale it down", w, h, maxPixels)
	}
	return nil
}

// spare bounds the bytes allocated on top, for a somewhat larger image to come.
const spare = 1 << 20

// prepare makes s an RGB image of that size.
func prepare(s *loader.Sample, w, h int) {
	s.H, s.W, s.C = h, w, 3
	n := h * w * 3
	if cap(s.Pixels) < n {
		s.Pixels = make([]byte, n+min(n/4, spare))
	}
	s.Pixels = s.Pixels[:n]
}
