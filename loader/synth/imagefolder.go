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
	o, err := o.withDefaults("an image folder", folderSamples)
	if err != nil {
		return err
	}
	m := marker.Marker{Format: "imagefolder", Name: "ImageFolder", Samples: o.Samples, Test: o.Test, Seed: o.Seed}
	p := &progress{total: o.Samples + o.Test, fn: o.Progress}
	return publish(dir, m, func(tmp string) error {
		for _, s := range []struct {
			name     string
			split, n int
		}{{"train", splitTrain, o.Samples}, {"val", splitTest, o.Test}} {
			root := filepath.Join(tmp, s.name)
			for _, c := range ClassNames {
				if err := os.MkdirAll(filepath.Join(root, c), 0o755); err != nil {
					return err
				}
			}
			if err := marker.Write(root, m); err != nil { // a split may be opened on its own
				return err
			}
			if err := parallel(ctx, s.n, 4, func(from, to int) error {
				for i := from; i < to; i++ {
					if err := writeImage(root, o.Seed, s.split, i); err != nil {
						return err
					}
				}
				p.add(to - from)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
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
