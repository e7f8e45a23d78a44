package flags

import (
	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/loader/source"
)

// Stores are the flags that say how data in an object store is cached.
type Stores struct {
	dir  string
	Size Size
}

// DefaultStoreCache is the default of --cache-size, in bytes.
const DefaultStoreCache = 16 << 30

// Add adds the flags.
func (f *Stores) Add(fs *pflag.FlagSet) {
	f.Size = DefaultStoreCache
	fs.StringVar(&f.dir, "cache-dir", "", "keep what was read of an object store in the folder `DIR`, for later epochs and runs (default: nothing is kept)")
	fs.Var(&f.Size, "cache-size", "bytes that --cache-dir may hold at the most")
}

// Open returns what reads files and object stores.
func (f *Stores) Open() (*source.Files, error) {
	var o source.Options
	if f.Size < source.MinCache {
		return nil, cli.Refuse("--cache-size "+f.Size.String(), "too small", "choose "+units.Prose.Bytes(source.MinCache)+" or more")
	}
	if f.dir != "" {
		c, err := source.NewCache(f.dir, int64(f.Size))
		if err != nil {
			return nil, err
		}
		o.Cache = c
	}
	return source.New(o), nil
}

// CheckData refuses an address that is malformed. It is called first, so that later errors do not
// print such an address.
func CheckData(path string) error {
	if _, err := source.Clean(path); err != nil {
		return cli.Misuse(err)
	}
	return nil
}
