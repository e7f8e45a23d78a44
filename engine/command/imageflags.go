package command

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/loader/filter"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/transform"
)

// imageFlags say what is made of images.
type imageFlags struct {
	transform string
	size      int
	where     string
}

// Their names, as settings of sweeps and labs.
const (
	transformSetting = "transform"
	sizeSetting      = "image_size"
	whereSetting     = "where"
)

func (f *imageFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.transform, transformSetting, "", "what is made of each image, as in 'rrc(224)|hflip|normalize': torchvision's transforms and defaults; gpustall data transforms lists them (default: what suits the data)")
	f.addWhere(fs)
	fs.IntVar(&f.size, flagName(sizeSetting), 0, "train on N x N pixels, of which a random part is taken: rrc(N)|hflip|normalize (default: 32 of CIFAR-10, 224 of images)")
}

// addWhere is apart from the others: it says which samples, not what is made of them.
func (f *imageFlags) addWhere(fs *pflag.FlagSet) {
	fs.StringVar(&f.where, whereSetting, "", "train on the samples of shards that fit a condition on metadata.parquet beside them, as in \"label < 10 and class not in ('cat', 'dog')\"")
}

// check refuses what cannot be done to any image.
func (f *imageFlags) check() error {
	if f.size != 0 {
		if err := transform.Check(fmt.Sprintf("rrc(%d)", f.size)); err != nil {
			return refuse(fmt.Sprintf("--image-size %d", f.size), "out of range", fmt.Sprintf("choose 1 to %d", transform.MaxSide))
		}
		if f.transform != "" {
			return refuse("--image-size", "--transform is given too, and says the size", "leave one out")
		}
	}
	if f.transform != "" {
		if err := transform.Check(f.transform); err != nil {
			return misuse(err)
		}
	}
	if f.where != "" {
		if err := filter.Check(f.where); err != nil {
			return misuse(err)
		}
	}
	return nil
}

// given are the flags that were given, as settings.
func (f *imageFlags) given() (out []knob.Setting) {
	if f.transform != "" {
		out = append(out, knob.Setting{Name: transformSetting, Value: f.transform})
	}
	if f.size != 0 {
		out = append(out, knob.Setting{Name: sizeSetting, Value: strconv.Itoa(f.size)})
	}
	if f.where != "" {
		out = append(out, knob.Setting{Name: whereSetting, Value: f.where})
	}
	return out
}

func (f *imageFlags) to(o *format.Options) {
	o.Transform, o.Size, o.Where = f.transform, f.size, f.where
}

// completeTransform offers the names that the step being typed may have.
func completeTransform(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return transform.Completions(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
