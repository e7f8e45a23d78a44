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
	Files    int   // that were looked at
	More     bool  // there are more of them
}

// ReadPageCache looks at a file, or at the files below a folder, in the order of their
// names, the first most of them. It reports false where this cannot be known.
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

// DropPageCache asks the operating system to forget a file, or the files below a folder.
// What it keeps all the same, since somebody has it mapped or it lies in memory only,
// ReadPageCache tells.
func DropPageCache(ctx context.Context, path string) error {
	return eachFile(ctx, path, func(f *os.File, _ int64) error { return drop(f) })
}

// eachFile opens what lies at a path, one file after the other. visit may end it with
// fs.SkipAll.
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
		info, err := os.Stat(path) // a link counts as what it leads to
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
