package flags

import (
	"path/filepath"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/train/safetensors"
	"github.com/spf13/pflag"
)

// Init is --init: the weights to begin with.
type Init struct{ File string }

// Add adds --init.
func (f *Init) Add(fs *pflag.FlagSet) {
	fs.StringVar(&f.File, "init", "", "begin with the weights in `FILE`"+safetensors.Ext+", named as torchvision's; a head for another number of classes stays random")
}

// initSetting is the name of --init as a setting of sweeps and labs.
const initSetting = "init"

// Given returns the file of weights as a setting. Its path is absolute, because a sweep or a lab
// may be continued from another folder.
func (f *Init) Given() ([]knob.Setting, error) {
	if f.File == "" {
		return nil, nil
	}
	if !cli.Exists(f.File) {
		return nil, cli.Refuse("--init "+f.File, "there is no such file", "name the weights to begin with")
	}
	path, err := filepath.Abs(f.File)
	if err != nil {
		return nil, errs.Wrap(err, "find", f.File, "name it in full")
	}
	return []knob.Setting{{Name: initSetting, Value: path}}, nil
}
