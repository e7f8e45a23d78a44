package flags

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/loader/filter"
	"dev.gpustall/loader/format"
	"dev.gpustall/loader/transform"
)

// Images are the flags that say how images are transformed and which are used.
type Images struct {
	Transform string
	Size      int
	Where     string
}

// The names of the flags as settings of sweeps and labs.
const (
	TransformSetting = "transform"
	SizeSetting      = "image_size"
	WhereSetting     = "where"
)

// Add adds the flags.
func (f *Images) Add(fs *pflag.FlagSet) {
	fs.StringVar(&f.Transform, TransformSetting, "", "what is made of each image, as in 'rrc(224)|hflip|normalize': torchvision's transforms and defaults; gpustall data transforms lists them (default: what suits the data)")
	f.addWhere(fs)
	fs.IntVar(&f.Size, Name(SizeSetting), 0, "train on N x N pixels, of which a random part is taken: rrc(N)|hflip|normalize (default: 32 of CIFAR-10, 224 of images)")
}

// addWhere adds --where, which chooses samples.
func (f *Images) addWhere(fs *pflag.FlagSet) {
	fs.StringVar(&f.Where, WhereSetting, "", "train on the samples of shards that fit a condition on metadata.parquet beside them, as in \"label < 10 and class not in ('cat', 'dog')\"")
}

// Check refuses transforms that no image can take.
func (f *Images) Check() error {
	if f.Size != 0 {
		if err := transform.Check(fmt.Sprintf("rrc(%d)", f.Size)); err != nil {
			return cli.Refuse(fmt.Sprintf("--image-size %d", f.Size), "out of range", fmt.Sprintf("choose 1 to %d", transform.MaxSide))
		}
		if f.Transform != "" {
			return cli.Refuse("--image-size", "--transform is given too, and says the size", "leave one out")
		}
	}
	if f.Transform != "" {
		if err := transform.Check(f.Transform); err != nil {
			return cli.Misuse(err)
		}
	}
	if f.Where != "" {
		if err := filter.Check(f.Where); err != nil {
			return cli.Misuse(err)
		}
	}
	return nil
}

// Given returns the flags that were given, as settings.
func (f *Images) Given() (out []knob.Setting) {
	if f.Transform != "" {
		out = append(out, knob.Setting{Name: TransformSetting, Value: f.Transform})
	}
	if f.Size != 0 {
		out = append(out, knob.Setting{Name: SizeSetting, Value: strconv.Itoa(f.Size)})
	}
	if f.Where != "" {
		out = append(out, knob.Setting{Name: WhereSetting, Value: f.Where})
	}
	return out
}

// To sets the flags in o.
func (f *Images) To(o *format.Options) {
	o.Transform, o.Size, o.Where = f.Transform, f.Size, f.Where
}

// CompleteTransform completes the name of the step that is being typed.
func CompleteTransform(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return transform.Completions(typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
