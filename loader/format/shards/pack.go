package shards

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
)

// Source is a data set that can be packed: its samples are files.
type Source interface {
	loader.Dataset
	loader.Locator
	Path(index int) string
}

// PackOptions say how to pack.
type PackOptions struct {
	To        *source.Files         // where the shards are written; may be nil
	ShardSize int64                 // most bytes of a shard, unless one sample is larger
	Seed      int64                 // of the order
	Looking   func(done, total int) // is told of the files whose sizes were read, before anything is packed; may be nil
	Progress  func(done, total int) // samples packed so far; may be nil
}

// Limits of ShardSize.
const (
	MinShard = 4 << 10
	MaxShard = 1 << 40
)

// item is a sample to be packed.
type item struct {
	index int
	key   string
	size  int64
}

const hintPack = "free some space or repair the disk: the same command goes on"

// Pack writes the samples of src as shards into dir. Only the seed decides their random order,
// so each shard is a mixture of the classes. Pack continues what an earlier call with the same
// data and options began. A shard is complete or missing, and the manifest is written last.
// Pack returns what is in dir, and how much of it was there before.
func Pack(ctx context.Context, src Source, dir string, o PackOptions) (packed []Packed, before int, err error) {
	if err := o.To.MkdirAll(dir); err != nil {
		return nil, 0, errs.Wrap(err, "pack into", dir, "choose a folder that can be written to")
	}
	plan, sum, err := planOf(ctx, src, o)
	if err != nil {
		return nil, 0, err
	}
	if m, err := readManifest(ctx, o.To, dir); err != nil {
		return nil, 0, err
	} else if m.Plan != "" {
		return m.Shards, len(m.Shards), m.again(ctx, o.To, dir, sum)
	}
	j, err := openJournal(ctx, o.To, dir, sum, len(plan))
	if err != nil {
		return nil, 0, err
	}
	info := src.Info()
	done := 0
	report := func(n int) {
		if done += n; o.Progress != nil {
			o.Progress(done, info.Samples)
		}
	}
	dims := map[int]sized{}
	before = len(j.done)
	for i, items := range plan {
		if i < before {
			report(len(items))
			continue
		}
		p, err := packShard(ctx, src, o.To, source.Join(dir, fmt.Sprintf("shard-%06d%s", i, Ext)), items, dims, report)
		if err == nil {
			err = errs.Wrap(j.add(ctx, p), "pack into", dir, hintPack)
		}
		if err != nil {
			return j.done, before, err
		}
	}
	if err := writeMetadata(ctx, src, o.To, dir, plan, j.done, dims); err != nil {
		return j.done, before, errs.Wrap(err, "pack into", dir, hintPack)
	}
	m := manifest{Classes: info.Classes, Samples: info.Samples, Synthetic: info.Synthetic, Plan: sum, Shards: j.done}
	if err := m.write(ctx, o.To, dir); err != nil {
		return j.done, before, errs.Wrap(err, "pack into", dir, hintPack)
	}
	return j.done, before, errs.Wrap(o.To.Remove(ctx, j.path), "pack into", dir, hintPack)
}

// planOf decides which samples go into which shard, and gives the plan a checksum.
func planOf(ctx context.Context, src Source, o PackOptions) (plan [][]item, sum string, err error) {
	info := src.Info()
	h := sha256.New()
	fmt.Fprintln(h, "1", o.ShardSize, o.Seed, info.Samples, len(info.Classes))
	keys := map[string]bool{}
	full := int64(0)
	for n, index := range loader.NewSampler(o.Seed, info.Samples).Order(nil, 0, true) {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		if o.Looking != nil {
			o.Looking(n+1, info.Samples)
		}
		st, err := os.Stat(src.Path(int(index)))
		if err != nil {
			return nil, "", errs.File(err, "pack", src.Path(int(index)), "put it back, or remove it from the data set")
		}
		name := src.Locate(int(index))
		it := item{index: int(index), key: unique(keys, keyOf(name)), size: st.Size()}
		fmt.Fprintf(h, "%q %d %d\n", name, st.Size(), st.ModTime().UnixNano())
		space := Space(it.size)
		if len(info.Classes) > 0 {
			space += Space(1)
		}
		if len(plan) == 0 || full+space > o.ShardSize && full > 0 {
			plan, full = append(plan, nil), 0
		}
		full += space
		plan[len(plan)-1] = append(plan[len(plan)-1], it)
	}
	return plan, hex.EncodeToString(h.Sum(nil)), nil
}

// keyOf returns the key of a file's sample: its path without the extension. Dots in the name
// are replaced, since the first one would end the key.
func keyOf(name string) string {
	name = filepath.ToSlash(name)
	dir, base := path.Split(name)
	base = strings.ReplaceAll(strings.TrimSuffix(base, path.Ext(base)), ".", "_")
	return dir + cmp.Or(base, "_")
}

// unique adds a number to a key that is taken.
func unique(taken map[string]bool, key string) string {
	free := key
	for n := 2; taken[free]; n++ {
		free = key + "-" + strconv.Itoa(n)
	}
	taken[free] = true
	return free
}

// packShard writes one shard.
func packShard(ctx context.Context, src Source, to *source.Files, path string, items []item, dims map[int]sized, report func(int)) (p Packed, err error) {
	w, err := Create(ctx, to, path)
	if err != nil {
		return p, errs.Wrap(err, "pack into", path, hintPack)
	}
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	labelled := len(src.Info().Classes) > 0
	var s loader.Sample
	for _, it := range items {
		s.Index = it.index
		if err := src.Read(ctx, &s); err != nil {
			return p, err
		}
		if int64(len(s.Raw)) != it.size {
			return p, errs.New("pack", src.Path(it.index), fmt.Sprintf("%d bytes where it had %d when packing began", len(s.Raw), it.size), "wait until the data do not change any more, and run it again")
		}
		dims[it.index] = sizeOf(s.Raw)
		parts := []Part{{strings.ToLower(filepath.Ext(src.Path(it.index))), s.Raw}}
		if labelled {
			parts = append(parts, Part{".cls", strconv.AppendInt(nil, int64(s.Label), 10)})
		}
		if err := w.Add(it.key, parts...); err != nil {
			return p, errs.Wrap(err, "pack into", path, hintPack)
		}
		report(1)
	}
	if p, err = w.Close(); err != nil {
		return p, errs.Wrap(err, "pack into", path, hintPack)
	}
	return p, nil
}
