//go:build !unix

package cifar

import (
	"io"
	"os"
)

func mapFile(f *os.File, _ int64) io.ReaderAt { return f }
