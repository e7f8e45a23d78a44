package flags

import (
	"fmt"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"github.com/dustin/go-humanize"
)

// Size is a flag of a number of bytes, as in 8GiB.
type Size int64

func (f *Size) Type() string { return "SIZE" }

func (f *Size) String() string {
	if *f == 0 {
		return ""
	}
	return units.Prose.Bytes(int64(*f))
}

func (f *Size) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<62 {
		return errs.New("set", fmt.Sprintf("a size of %q", text), "not a number of bytes", "write it as 512MiB or 8GB")
	}
	*f = Size(n)
	return nil
}
