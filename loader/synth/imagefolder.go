package synth

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"

	"dev.gpustall/loader"
	"dev.gpustall/loader/synth/marker"
)

// How many images are made by default, their sizes in pixels, and how they are stored.
const (
	folderSamples = 1000
	minSide       = 200
	maxSide       = 320
	jpegQuality   = 85
	pngEvery      = 10 // every tenth image is a PNG
)

// ImageFolder writes dir/train/class/… and dir/val/class/…: JPEGs of varying size, every tenth
// image a PNG. If it fails it leaves dir as it was.
func ImageFolder(ctx context.Context, dir string, o Options) error {
	m := marker.Marker{Format: "imagefolder", Name: "ImageFolder"}
	return splits(dir, "an image folder", folderSamples, m, o, func(root string, split, n int, p *progress) error {
		if err := classFolders(root); err != nil {
			return err
		}
		return p.each(ctx, n, func(i int) error { return writeImage(root, o.Seed, split, i) })
	})
}

// writeImage stores image i of a split.
func writeImage(root string, seed int64, split, i int) error {
	b, ext, class, err := encodeImage(seed, split, i)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, ClassNames[class], fmt.Sprintf("%06d%s", i, ext)), b, 0o644)
}

// encodeImage returns image i of a split as a file: a JPEG, every tenth a PNG.
func encodeImage(seed int64, split, i int) (file []byte, ext string, class int, err error) {
	class = label(seed, split, i)
	rng := loader.NewRNG(seed, split, i)
	pic := newPicture(class, &rng)
	w, h := minSide+rng.IntN(maxSide-minSide+1), minSide+rng.IntN(maxSide-minSide+1)
	rgb := make([]byte, w*h*3)
	pic.draw(rgb, w, h, &rng)
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for k := range w * h {
		copy(img.Pix[4*k:4*k+3], rgb[3*k:3*k+3])
		img.Pix[4*k+3] = 255
	}
	var b bytes.Buffer
	if i%pngEvery == pngEvery-1 {
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
		return b.Bytes(), ".png", class, err
	}
	err = jpeg.Encode(&b, img, &jpeg.Options{Quality: jpegQuality})
	return b.Bytes(), ".jpg", class, err
}
