package command

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/loader"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/synth"
)

// openPath opens a data set of whatever form.
func openPath(ctx context.Context, path string, files *source.Files, images imageFlags, progress progressFunc) (loader.Dataset, loader.Transform, error) {
	began := time.Now()
	o := format.Options{Files: files, Progress: func(done, total int) {
		if time.Since(began) > time.Second { // most sets are through by then
			progress("looking through the shards of "+path, done, total)
		}
	}}
	if checkHome("indexes of shards", cacheVariable, "") == nil {
		o.Cache = cacheDir()
	}
	images.to(&o)
	return format.Open(ctx, path, o)
}

// defaultData makes the synthetic CIFAR-10 once, in the cache directory.
func defaultData(ctx context.Context, progress progressFunc) (string, error) {
	if err := checkHome("the default data set", cacheVariable, "name a data set with --data"); err != nil {
		return "", err
	}
	dir := filepath.Join(cacheDir(), "synthetic-cifar10")
	if exists(dir) {
		return dir, nil
	}
	what := "making synthetic CIFAR-10 in " + dir + " (once)"
	err := synth.CIFAR10(ctx, dir, synth.Options{Progress: func(done, total int) { progress(what, done, total) }})
	if err != nil {
		return "", errs.Wrap(err, "make the default data set in", dir, "name one with --data")
	}
	return dir, nil
}

// unwrapped is the data set itself where it is read forwards.
func unwrapped(ds loader.Dataset) any {
	if s, ok := ds.(*loader.Streamed); ok {
		return s.Stream
	}
	return ds
}

// contents says what a data set's files hold, where its format alone does not.
func contents(ds loader.Dataset) string {
	if s, ok := unwrapped(ds).(interface{ Contents() string }); ok {
		return s.Contents()
	}
	return ""
}

// requested says what was asked of stores; nothing where none was.
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
