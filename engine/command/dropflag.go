package command

import "github.com/spf13/pflag"

// dropSetting is the flag's name as a setting of sweeps.
const dropSetting = "drop_cache"

func addDropCache(fs *pflag.FlagSet, drop *bool) {
	fs.BoolVar(drop, flagName(dropSetting), false, "begin cold: have the page cache forget the data set's own files first")
}
