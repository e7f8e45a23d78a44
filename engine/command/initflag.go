package command

import (
	"path/filepath"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/train/safetensors"
	"github.com/spf13/pflag"
)

// initFlag is --init: the weights to begin with.
type initFlag struct{ file string }

func (f *initFlag) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.file, "init", "", "begin with the weights in `FILE`"+safetensors.Ext+", named as torchvision's; a head for another number of classes stays random")
}

// initSetting is the flag's name as a setting of sweeps and labs.
const initSetting = "init"

// given is the file of weights as a setting, by its whole path: a sweep or a lab may be gone
// on with from elsewhere.
func (f *initFlag) given() ([]knob.Setting, error) {
	if f.file == "" {
		return nil, nil
	}
	if !exists(f.file) {
		return nil, refuse("--init "+f.file, "there is no such file", "name the weights to begin with")
	}
	path, err := filepath.Abs(f.file)
	if err != nil {
		return nil, errs.Wrap(err, "find", f.file, "name it in full")
	}
	return []knob.Setting{{Name: initSetting, Value: path}}, nil
}
