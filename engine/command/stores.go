package command

import (
	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/loader/source"
)

// storeFlags are how data in an object store is read.
type storeFlags struct {
	dir  string
	size sizeFlag
}

const defaultStoreCache = 16 << 30

func (f *storeFlags) add(fs *pflag.FlagSet) {
	f.size = defaultStoreCache
	fs.StringVar(&f.dir, "cache-dir", "", "keep what was read of an object store in the folder `DIR`, for later epochs and runs (default: nothing is kept)")
	fs.Var(&f.size, "cache-size", "bytes that --cache-dir may hold at the most")
}

// open reaches paths and stores.
func (f *storeFlags) open() (*source.Files, error) {
	var o source.Options
	if f.size < source.MinCache {
		return nil, refuse("--cache-size "+f.size.String(), "too small", "choose "+units.Prose.Bytes(source.MinCache)+" or more")
	}
	if f.dir != "" {
		c, err := source.NewCache(f.dir, int64(f.size))
		if err != nil {
			return nil, err
		}
		o.Cache = c
	}
	return source.New(o), nil
}

// checkData refuses an address that none can be, before anybody repeats it.
func checkData(path string) error {
	if _, err := source.Clean(path); err != nil {
		return misuse(err)
	}
	return nil
}
