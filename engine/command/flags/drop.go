package flags

import "github.com/spf13/pflag"

// DropSetting is the name of --drop-cache as a sweep's setting.
const DropSetting = "drop_cache"

// AddDropCache adds --drop-cache.
func AddDropCache(fs *pflag.FlagSet, drop *bool) {
	fs.BoolVar(drop, Name(DropSetting), false, "begin cold: have the page cache forget the data set's own files first")
}
