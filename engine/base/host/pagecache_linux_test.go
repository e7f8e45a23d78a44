package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What was written is in the page cache, and is not after it was dropped; both ways of
// asking agree.
func TestPageCache(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skip("the folder for temporary files lies in memory: nothing can be dropped")
	}
	const size = 1<<20 + 100
	for _, name := range []string{"a/1", "a/2", "b/3"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	c, ok := ReadPageCache(ctx, dir, 10)
	if !ok || c != (PageCache{Kept: 3 * size, Of: 3 * size, Files: 3}) {
		t.Errorf("after writing: %+v, %v", c, ok)
	}
	if c, _ := ReadPageCache(ctx, dir, 2); c != (PageCache{Kept: 2 * size, Of: 2 * size, Files: 2, More: true}) {
		t.Errorf("of the first two: %+v", c)
	}
	f, err := os.Open(filepath.Join(dir, "a/1"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := mincore(f, size); err != nil || n < size {
		t.Errorf("mincore: %d, %v", n, err)
	}
	if err := DropPageCache(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if c, ok := ReadPageCache(ctx, dir, 10); !ok || c.Kept > size/10 {
		t.Errorf("after dropping: %+v, %v", c, ok)
	}
	if n, err := mincore(f, size); err != nil || n > size/10 {
		t.Errorf("mincore after dropping: %d, %v", n, err)
	}
	if _, ok := ReadPageCache(ctx, filepath.Join(dir, "none"), 1); ok {
		t.Error("knows of what is not there")
	}
}
