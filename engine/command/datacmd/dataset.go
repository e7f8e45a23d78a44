package datacmd

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/synth"
)

// Open opens a data set of any format.
func Open(ctx context.Context, path string, files *source.Files, images flags.Images, progress cli.Progress) (loader.Dataset, loader.Transform, error) {
	began := time.Now()
	o := format.Options{Files: files, Progress: func(done, total int) {
		if time.Since(began) > time.Second { // most data sets are open by then
			progress("looking through the shards of "+path, done, total)
		}
	}}
	if cli.CheckHome("indexes of shards", cli.CacheVariable, "") == nil {
		o.Cache = cli.CacheDir()
	}
	images.To(&o)
	return format.Open(ctx, path, o)
}

// Default returns the synthetic CIFAR-10 in the cache directory. It makes it if it is not there.
func Default(ctx context.Context, progress cli.Progress) (string, error) {
	if err := cli.CheckHome("the default data set", cli.CacheVariable, "name a data set with --data"); err != nil {
		return "", err
	}
	dir := filepath.Join(cli.CacheDir(), "synthetic-cifar10")
	if cli.Exists(dir) {
		return dir, nil
	}
	what := "making synthetic CIFAR-10 in " + dir + " (once)"
	err := synth.CIFAR10(ctx, dir, synth.Options{Progress: func(done, total int) { progress(what, done, total) }})
	if err != nil {
		return "", errs.Wrap(err, "make the default data set in", dir, "name one with --data")
	}
	return dir, nil
}

// unwrapped returns the data set itself, also if it is a stream.
func unwrapped(ds loader.Dataset) any {
	if s, ok := ds.(*loader.Streamed); ok {
		return s.Stream
	}
	return ds
}

// Contents says what the files of a data set hold if its format does not tell.
func Contents(ds loader.Dataset) string {
	if s, ok := unwrapped(ds).(interface{ Contents() string }); ok {
		return s.Contents()
	}
	return ""
}

// requested says how many requests went to object stores. It is empty if there were none.
func requested(c source.Counts) string {
	if c.Requests == 0 {
		return ""
	}
	text := units.Counted(int(c.Requests), "request", "requests") + " to the store"
	if c.Retries > 0 {
		text += fmt.Sprintf(", %s made again", units.Count(c.Retries))
	}
	if c.Written > 0 {
		text += ", " + units.Prose.Bytes(c.Written) + " written"
	}
	if c.Cached > 0 {
		text += ", " + units.Prose.Bytes(c.Cached) + " from the cache"
	}
	return text + "\n"
}
