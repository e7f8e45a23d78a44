package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"

	"dev.gpustall/engine/base/errs"
)

// SessionDir returns the folder of sessions.
func SessionDir() string { return filepath.Join(xdg.StateHome, "gpustall", "sessions") }

// CacheDir returns the folder of the default data set and of tuned kernels.
func CacheDir() string { return filepath.Join(xdg.CacheHome, "gpustall") }

// The variables that name the parent folders of SessionDir and CacheDir.
const (
	StateVariable = "XDG_STATE_HOME"
	CacheVariable = "XDG_CACHE_HOME"
)

// CheckHome returns an error if neither HOME nor variable is set. Without these, the folder would
// be in the root folder, such as /.local. The error names what the folder holds, and otherwise,
// how to do without it.
func CheckHome(what, variable, otherwise string) error {
	if os.Getenv("HOME") != "" || filepath.IsAbs(os.Getenv(variable)) {
		return nil
	}
	return errs.New("find the folder of", what, fmt.Sprintf("neither HOME nor %s is set", variable), "set one of them, or "+otherwise)
}

// MakeWritable makes a folder, if it is missing, and reports why no file can be made in it.
func MakeWritable(dir string, mode os.FileMode) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, ".probe")
	if err != nil {
		return err
	}
	_ = probe.Close()
	return os.Remove(probe.Name())
}

// CheckSessionHome is CheckHome for SessionDir.
func CheckSessionHome(otherwise string) error {
	return CheckHome("sessions", StateVariable, otherwise)
}
