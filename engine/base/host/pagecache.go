package host

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
)

// PageCache is how much of some files the operating system keeps in memory.
type PageCache struct {
	Kept, Of int64 // bytes
	Files    int   // how many were looked at
	More     bool  // there are more files than were looked at
}

// ReadPageCache looks at a file, or at the first most files below a folder in the order of their
// names. It is false where this cannot be known.
func ReadPageCache(ctx context.Context, path string, most int) (c PageCache, known bool) {
	if !seesPageCache {
		return c, false
	}
	err := eachFile(ctx, path, func(f *os.File, size int64) error {
		if c.Files == most {
			c.More = true
			return fs.SkipAll
		}
		kept, err := resident(f, size)
		c.Files++
		c.Kept += min(kept, size) // the last page may be longer than the file
		c.Of += size
		return err
	})
	return c, err == nil && c.Of > 0
}

// DropPageCache asks the operating system to forget a file, or the files below a folder. It may
// keep some of it, for example what somebody has mapped; ReadPageCache tells how much.
func DropPageCache(ctx context.Context, path string) error {
	return eachFile(ctx, path, func(f *os.File, _ int64) error { return drop(f) })
}

// eachFile opens the files at a path one after the other. visit ends it early with fs.SkipAll.
func eachFile(ctx context.Context, path string, visit func(*os.File, int64) error) error {
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		info, err := os.Stat(path) // a link counts as its target
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return visit(f, info.Size())
	})
	return err
}
