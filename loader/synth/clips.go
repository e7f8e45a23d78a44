package synth

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"dev.gpustall/loader"
	"dev.gpustall/loader/format/imagefolder"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/synth/marker"
)

// How many clips are made by default, and the size of one: 384 KiB.
const (
	clipSamples = 200
	clipFrames  = 16
	clipSide    = 64
)

var clipShape = npy.Shape{3, clipFrames, clipSide, clipSide}

// Clips writes dir/train/class/… and dir/val/class/…: .npy files of float16 (C,T,H,W) from 0 to
// 1, in which the picture of ImageFolder's classes moves. If it fails it leaves dir as it was.
func Clips(ctx context.Context, dir string, o Options) error {
	m := marker.Marker{Format: imagefolder.FormatArrays, Name: "clips"}
	halves, head := halvesOf(), npy.AppendHeader(nil, npy.Float16, clipShape)
	return splits(dir, "clips", clipSamples, m, o, func(root string, split, n int, p *progress) error {
		if err := classFolders(root); err != nil {
			return err
		}
		return p.each(ctx, n, func(i int) error {
			clip, class := encodeClip(o.Seed, split, i, halves)
			file := append(bytes.Clone(head), clip...)
			return os.WriteFile(filepath.Join(root, ClassNames[class], fmt.Sprintf("%06d.npy", i)), file, 0o644)
		})
	})
}

// halvesOf returns the float16 from 0 to 1 of each byte.
func halvesOf() *[256]uint16 {
	var halves [256]uint16
	for v := range halves {
		halves[v] = npy.ToHalf(float32(v) / 255)
	}
	return &halves
}

// encodeClip returns clip i of a split, and its class.
func encodeClip(seed int64, split, i int, halves *[256]uint16) (clip []byte, class int) {
	class = label(seed, split, i)
	rng := loader.NewRNG(seed, split, i)
	pic := newPicture(class, &rng)
	towards := 2 * math.Pi * rng.Float64() // in a clip the object moves by a third of a side
	dx, dy := math.Cos(towards)/(3*clipFrames), math.Sin(towards)/(3*clipFrames)
	clip = make([]byte, 2*3*clipFrames*clipSide*clipSide)
	const plane = clipSide * clipSide
	frame := make([]byte, 3*plane)
	for t := range clipFrames {
		pic.draw(frame, clipSide, clipSide, &rng)
		for k := range plane {
			for c := range 3 {
				at := 2 * ((c*clipFrames+t)*plane + k)
				binary.LittleEndian.PutUint16(clip[at:], halves[frame[3*k+c]])
			}
		}
		pic.cx, pic.cy = pic.cx+dx, pic.cy+dy
	}
	return clip, class
}
