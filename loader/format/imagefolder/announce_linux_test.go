package imagefolder

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/loader"
)

var _ loader.Announced = (*Dataset)(nil)

// TestAnnounce: an announced file is brought into memory without being read. Anything but a
// file is left alone.
func TestAnnounce(t *testing.T) {
	root := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skip("the folder for temporary files lies in memory: nothing is read ahead")
	}
	tree(t, root, "c/a.png", "c/b.png", "c/c.png")
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.DropPageCache(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	kept := func(i int) bool {
		c, ok := host.ReadPageCache(t.Context(), d.Path(i), 1)
		return ok && c.Kept > 0
	}
	if kept(1) {
		t.Skip("the page cache of the folder for temporary files cannot be dropped")
	}
	d.Announce(1)
	for end := time.Now().Add(10 * time.Second); !kept(1); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the file has not been read ahead")
		}
	}
	if kept(0) {
		t.Error("another file was read")
	}
	if err := os.Remove(d.Path(2)); err != nil {
		t.Fatal(err)
	}
	d.Announce(2)
	if err := unix.Mkfifo(d.Path(2), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Announce(2) // does not wait for a writer
}
