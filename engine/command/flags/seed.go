package flags

import "github.com/spf13/pflag"

// AddSeed adds --seed.
func AddSeed(fs *pflag.FlagSet, seed *int64) {
	fs.Int64Var(seed, "seed", 1, "seed of the weights, the order and the augmentation")
}
