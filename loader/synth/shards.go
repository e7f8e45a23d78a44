package synth

import (
	"context"
	"fmt"
	"os"
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
	o, err := o.withDefaults("shards", folderSamples)
	if err != nil {
		return err
	}
	m := marker.Marker{Format: shards.Format, Name: "shards", Samples: o.Samples, Test: o.Test, Seed: o.Seed}
	p := &progress{total: o.Samples + o.Test, fn: o.Progress}
	return publish(dir, m, func(tmp string) error {
		return splits(tmp, m, o, func(root string, split, n int) error {
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
	})
}

// splits makes and fills each split's folder. It marks each, since a split may be opened on its
// own.
func splits(tmp string, m marker.Marker, o Options, fill func(root string, split, n int) error) error {
	for _, s := range []struct {
		name     string
		split, n int
	}{{"train", splitTrain, o.Samples}, {"val", splitTest, o.Test}} {
		root := filepath.Join(tmp, s.name)
		if err := os.MkdirAll(root, 0o755); err != nil {
			return err
		}
		if err := marker.Write(root, m); err != nil {
			return err
		}
		if err := fill(root, s.split, s.n); err != nil {
			return err
		}
	}
	return nil
}

// writeShard writes the images from first to end, encoding them on all cores.
func writeShard(ctx context.Context, path string, seed int64, split, first, end int, p *progress) (packed shards.Packed, err error) {
	type encoded struct {
		file  []byte
		ext   string
		class int
	}
	images := make([]encoded, end-first)
	err = parallel(ctx, len(images), 4, func(from, to int) error {
		for i := from; i < to; i++ {
			e := &images[i]
			var err error
			if e.file, e.ext, e.class, err = encodeImage(seed, split, first+i); err != nil {
				return err
			}
		}
		p.add(to - from)
		return nil
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
