package synth

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"dev.gpustall/loader/format/shards"
	"dev.gpustall/loader/synth/marker"
)

// shardSamples is how many samples a shard has.
const shardSamples = 128

// Shards writes dir/train and dir/val. Each has tar shards in WebDataset's layout, with the
// images of ImageFolder and their classes. If it fails it leaves dir as it was.
func Shards(ctx context.Context, dir string, o Options) error {
	m := marker.Marker{Format: shards.Format, Name: "shards"}
	return splits(dir, "shards", folderSamples, m, o, func(root string, split, n int, p *progress) error {
		var packed []shards.Packed
		for first := 0; first < n; first += shardSamples {
			one, err := writeShard(ctx, filepath.Join(root, fmt.Sprintf("shard-%06d%s", len(packed), shards.Ext)), o.Seed, split, first, min(n, first+shardSamples), p)
			if err != nil {
				return err
			}
			packed = append(packed, one)
		}
		return shards.WriteManifest(root, ClassNames[:], true, packed)
	})
}

// writeShard writes the images from first to end, encoding them on all cores.
func writeShard(ctx context.Context, path string, seed int64, split, first, end int, p *progress) (packed shards.Packed, err error) {
	type encoded struct {
		file  []byte
		ext   string
		class int
	}
	images := make([]encoded, end-first)
	err = p.each(ctx, len(images), func(i int) (err error) {
		e := &images[i]
		e.file, e.ext, e.class, err = encodeImage(seed, split, first+i)
		return err
	})
	if err != nil {
		return packed, err
	}
	w, err := shards.Create(ctx, nil, path)
	if err != nil {
		return packed, err
	}
	for i, e := range images {
		err := w.Add(fmt.Sprintf("%06d", first+i), shards.Part{Ext: e.ext, Data: e.file}, shards.Part{Ext: ".cls", Data: strconv.AppendInt(nil, int64(e.class), 10)})
		if err != nil {
			w.Abort()
			return packed, err
		}
	}
	return w.Close()
}
