// Package codec decodes images to RGB pixels: JPEG, PNG, WebP, BMP, TIFF, PBM, PGM
// and PPM, known by their first bytes.
//
// The pixels are those of PIL's Image.open(f).convert("RGB"), which torchvision's loader calls.
// Alpha is dropped. Of 16-bit colours the upper 8 bits count; 16-bit grey is clipped at 255.
// JPEG's chroma is upsampled and converted as libjpeg does it, WebP's as libwebp does it. The
// pixels equal PIL's bit for bit for every kind of file in testdata. The exceptions are JPEGs
// that package jpeg leaves to the standard library, such as one with subsampled RGB.
//
// An image may have as many pixels as PIL allows, 178,956,970. Decoding takes 4 to 15
// bytes of memory a pixel.
//
// As with torchvision, an EXIF orientation is ignored: a photograph taken with the
// camera on its side lies on its side. PIL reads some kinds that this package refuses:
// GIF, animated WebP, progressive JPEG of more than 100 scans, and BMP with run-length
// coding or 16 bits. It also refuses TIFF with JPEG inside, CMYK or floating point.
//
// An empty or truncated file is an error. A sequential JPEG with damaged data is decoded as far
// as libjpeg decodes it. A damaged progressive JPEG is an error, although PIL accepts it.
package codec

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
	"dev.gpustall/loader/codec/jpeg"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// maxPixels bounds an image, like PIL's check for decompression bombs.
const maxPixels = 178956970

// kind is a kind of image, recognised by its first bytes, whatever the file's name.
type kind struct {
	name   string
	magic  string // ? stands for any byte
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var kinds = []kind{
	{"JPEG", "\xff\xd8", stdjpeg.DecodeConfig, stdjpeg.Decode},
	{"PNG", "\x89PNG", png.DecodeConfig, png.Decode},
	{"WebP", "RIFF????WEBP", webp.DecodeConfig, webp.Decode},
	{"BMP", "BM", bmp.DecodeConfig, bmp.Decode},
	{"TIFF", "II*\x00", tiff.DecodeConfig, tiff.Decode},
	{"TIFF", "MM\x00*", tiff.DecodeConfig, tiff.Decode},
}

var errUnknown = errors.New("neither a JPEG, PNG, WebP, BMP, TIFF, PPM nor PGM")

var (
	startOfScan = []byte{0xff, 0xda} // coded data never contain it (T.81, B.1.1.5)
	errScans    = fmt.Errorf("a progressive JPEG of more than %d scans", jpeg.MaxScans)
)

func (k *kind) matches(b []byte) bool {
	if len(b) < len(k.magic) {
		return false
	}
	for i := range len(k.magic) {
		if k.magic[i] != '?' && k.magic[i] != b[i] {
			return false
		}
	}
	return true
}

// Decode turns the image in s.Raw into RGB pixels. Of a JPEG it makes only those that are
// needed. Hint says what to do about an error of Decode.
func Decode(s *loader.Sample) error {
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
	for i := range kinds {
		if k := &kinds[i]; k.matches(b) {
			return k.read(s)
		}
	}
	return errUnknown
}

// decoder is a JPEG decoder with scratch for the conversion of a row.
type decoder struct {
	jpeg.Decoder
	row []byte
}

// decoders keeps decoders between images, each with at most keptBytes of memory.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// keptBytes is enough for an image of 44 Mpixel with 4:2:0 chroma, or of 14 Mpixel if
// it is progressive.
const keptBytes = 64 << 20

// decodeJPEG decodes a usual JPEG, or the needed part of it. handled is false if s holds
// something else, or a damaged JPEG, for which image/jpeg has the better error.
func decodeJPEG(s *loader.Sample) (handled bool, err error) {
	d := decoders.Get().(*decoder)
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
	if r := s.Needed(d.Width, d.Height); r.W > 0 && r.H > 0 {
		d.Part = d.Part.Intersect(image.Rect(r.X, r.Y, r.X+r.W, r.Y+r.H))
	}
	if d.Decode() != nil {
		if bytes.Count(s.Raw, startOfScan) > jpeg.MaxScans {
			return true, errScans // image/jpeg would decode all the scans
		}
		return false, nil
	}
	part := d.Part
	prepare(s, part.Dx(), part.Dy())
	s.H, s.W = d.Height, d.Width
	s.Part = loader.Rect{X: part.Min.X, Y: part.Min.Y, W: part.Dx(), H: part.Dy()}
	d.colours(s.Pixels)
	return true, nil
}

// colours converts the wanted part of the planes to RGB.
func (d *decoder) colours(dst []byte) {
	part := d.Part
	n := 3 * part.Dx()
	rows := func(pix []byte, stride int, row func(dst, src []byte)) {
		for y := range part.Dy() {
			row(dst[y*n:(y+1)*n], pix[(part.Min.Y+y)*stride+part.Min.X:])
		}
	}
	switch {
	case d.Gray != nil:
		rows(d.Gray.Pix, d.Gray.Stride, grey)
	case d.Direct:
		interleave(dst, d.YCbCr, part)
	case d.RGB(dst):
	default:
		d.row = fromYCbCr(dst, d.YCbCr, part, d.row)
	}
	if d.Black != nil {
		rows(d.Black, d.YCbCr.YStride, func(row, black []byte) { printed(row, black, d.Direct) })
	}
}

func (k *kind) read(s *loader.Sample) error {
	if k.name == "WebP" && animated(s.Raw) {
		return errAnimated
	}
	cfg, err := k.config(bytes.NewReader(s.Raw))
	if err == nil {
		err = checkSize(cfg.Width, cfg.Height)
	}
	var img image.Image
	if err == nil {
		img, err = k.guarded(s.Raw)
	}
	if err != nil && truncated(err) {
		if errors.Is(err, io.EOF) { // some decoders say so in the middle of an image
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("this %s is truncated: %w", k.name, err)
	}
	if err != nil {
		return fmt.Errorf("cannot read this %s: %w", k.name, err)
	}
	r := img.Bounds()
	if err := checkSize(r.Dx(), r.Dy()); err != nil {
		return fmt.Errorf("cannot read this %s: %w", k.name, err)
	}
	prepare(s, r.Dx(), r.Dy())
	switch m := img.(type) {
	case *image.YCbCr:
		if k.name == "WebP" {
			fromVP8(s.Pixels, m)
			return nil
		}
	case *image.NYCbCrA: // a WebP's
		fromVP8(s.Pixels, &m.YCbCr)
		return nil
	case *image.Gray:
		if k.name == "TIFF" {
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
func (k *kind) guarded(b []byte) (img image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its decoder panicked: %v", p)
		}
	}()
	return k.decode(bytes.NewReader(b))
}

// Hint says what to do about a file that Decode refuses.
func Hint(err error) string {
	if _, ok := errors.AsType[stdjpeg.UnsupportedError](err); ok {
		return hintKind
	}
	if _, ok := errors.AsType[png.UnsupportedError](err); ok {
		return hintKind
	}
	if _, ok := errors.AsType[tiff.UnsupportedError](err); ok {
		return hintKind
	}
	if errors.Is(err, bmp.ErrUnsupported) || errors.Is(err, errAnimated) || errors.Is(err, errScans) || errors.Is(err, errUnknown) {
		return hintKind
	}
	return "replace or remove the file"
}

const hintKind = "save it as a plain RGB PNG or JPEG, or remove the file"

// checkSize refuses images that are too large for memory.
func checkSize(w, h int) error {
	if w <= 0 || h <= 0 {
		return fmt.Errorf("%d x %d pixels: there is nothing in it", w, h)
	}
	if w > maxPixels/h {
		return fmt.Errorf("%d x %d pixels, more than the %d allowed, which is PIL's limit too", w, h, maxPixels)
	}
	return nil
}

// spare is the most bytes that are allocated beyond an image, for a somewhat larger one
// later.
const spare = 1 << 20

// prepare makes s an RGB image of w x h pixels.
func prepare(s *loader.Sample, w, h int) {
	s.H, s.W, s.C, s.Part = h, w, 3, loader.Rect{}
	n := h * w * 3
	if cap(s.Pixels) < n {
		s.Pixels = make([]byte, n+min(n/4, spare))
	}
	s.Pixels = s.Pixels[:n]
}
