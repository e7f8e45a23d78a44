package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"

	"dev.gpustall/engine/base/errs"
)

// sessionDir is where sessions are kept.
func sessionDir() string { return filepath.Join(xdg.StateHome, "gpustall", "sessions") }

// cacheDir is where the default data set and tuned kernels are kept.
func cacheDir() string { return filepath.Join(xdg.CacheHome, "gpustall") }

// The variables that name the parent of sessionDir and of cacheDir.
const (
	stateVariable = "XDG_STATE_HOME"
	cacheVariable = "XDG_CACHE_HOME"
)

// checkHome refuses to use a folder that neither its variable nor HOME names: it would
// be one in the root folder, such as /.local. what is kept there, otherwise is how to do
// without the folder.
func checkHome(what, variable, otherwise string) error {
	if os.Getenv("HOME") != "" || filepath.IsAbs(os.Getenv(variable)) {
		return nil
	}
	return errs.New("find the folder of", what, fmt.Sprintf("neither HOME nor %s is set", variable), "set one of them, or "+otherwise)
}

// checkSessionHome is checkHome for sessionDir.
func checkSessionHome(otherwise string) error {
	return checkHome("sessions", stateVariable, otherwise)
}
