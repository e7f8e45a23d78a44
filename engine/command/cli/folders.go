package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"

	"dev.gpustall/engine/base/errs"
)

// SessionDir is where sessions are kept.
func SessionDir() string { return filepath.Join(xdg.StateHome, "gpustall", "sessions") }

// CacheDir is where the default data set and tuned kernels are kept.
func CacheDir() string { return filepath.Join(xdg.CacheHome, "gpustall") }

// The variables that name the parent of sessionDir and of cacheDir.
const (
	StateVariable = "XDG_STATE_HOME"
	CacheVariable = "XDG_CACHE_HOME"
)

// CheckHome refuses to use a folder that neither its variable nor HOME names: it would
// be one in the root folder, such as /.local. what is kept there, otherwise is how to do
// without the folder.
func CheckHome(what, variable, otherwise string) error {
	if os.Getenv("HOME") != "" || filepath.IsAbs(os.Getenv(variable)) {
		return nil
	}
	return errs.New("find the folder of", what, fmt.Sprintf("neither HOME nor %s is set", variable), "set one of them, or "+otherwise)
}

// CheckSessionHome is checkHome for sessionDir.
func CheckSessionHome(otherwise string) error {
	return CheckHome("sessions", StateVariable, otherwise)
}
