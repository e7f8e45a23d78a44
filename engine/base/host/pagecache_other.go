//go:build !linux

package host

import (
	"errors"
	"os"
)

const seesPageCache = false

func resident(*os.File, int64) (int64, error) { return 0, errors.ErrUnsupported }

func drop(*os.File) error { return errors.ErrUnsupported }
