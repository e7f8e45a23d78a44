package cli

import (
	"fmt"
	"os"
)

// Exists reports whether there is a file at path, even a broken link.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// UnusedName returns the name of a file that does not exist yet: path, a number if one is
// needed, and ext.
func UnusedName(path, ext string) string {
	name := path + ext
	for n := 2; Exists(name); n++ {
		name = fmt.Sprintf("%s-%d%s", path, n, ext)
	}
	return name
}
