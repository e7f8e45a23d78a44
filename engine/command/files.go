package command

import (
	"fmt"
	"os"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unusedName is the name of a file that is not there yet.
func unusedName(path, ext string) string {
	name := path + ext
	for n := 2; exists(name); n++ {
		name = fmt.Sprintf("%s-%d%s", path, n, ext)
	}
	return name
}
