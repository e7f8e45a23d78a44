package synth

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"dev.gpustall/loader/format/mapped"
	"dev.gpustall/loader/format/npy"
	"dev.gpustall/loader/synth/marker"
)

// Array writes the clips of Clips into one file for each split, dir/train/clips.npy and
// dir/val/clips.npy, (N,C,T,H,W), with their classes beside them. If it fails it leaves dir as
// it was.
func Array(ctx context.Context, dir string, o Options) error {
	m := marker.Marker{Format: mapped.Format, Name: "clips"}
	halves := halvesOf()
	return splits(dir, "array", clipSamples, m, o, func(root string, split, n int, p *progress) (err error) {
		head := npy.AppendHeader(nil, npy.Float16, append(npy.Shape{n}, clipShape...))
		labels := npy.AppendHeader(nil, "<i8", npy.Shape{n})
		for i := range n {
			labels = binary.LittleEndian.AppendUint64(labels, uint64(label(o.Seed, split, i)))
		}
		if err := os.WriteFile(filepath.Join(root, mapped.Labels), labels, 0o644); err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(root, "clips.npy"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if _, err := f.Write(head); err != nil {
			return err
		}
		return p.each(ctx, n, func(i int) error {
			clip, _ := encodeClip(o.Seed, split, i, halves)
			_, err := f.WriteAt(clip, int64(len(head))+int64(i)*int64(len(clip)))
			return err
		})
	})
}
