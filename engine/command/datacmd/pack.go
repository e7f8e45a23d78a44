package datacmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/loader/format/imagefolder"
	"dev.gpustall/loader/format/shards"
	"dev.gpustall/loader/source"
)

func newPack() *cobra.Command {
	size := flags.Size(256 << 20)
	var seed int64
	cmd := &cobra.Command{
		Use:   "pack SRC DST",
		Short: "Write a folder of small files as tar shards, which load faster",
		Long: `Write a folder of images or .npy arrays by class as uncompressed tar shards in
WebDataset's layout, the splits train and val each into a folder of its own.
Samples come in a random order that --seed decides, each file with a checksum.
The same command goes on with a packing that was stopped.`,
		Example: `  gpustall data pack SRC DST
  gpustall data pack SRC s3://bucket/prefix --shard-size 256MiB`,
		Args: flags.Exactly(2, "a folder of files and a folder for the shards"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if size < shards.MinShard || size > shards.MaxShard {
				return cli.Refuse("--shard-size "+size.String(), "out of range",
					fmt.Sprintf("choose %s to %s", units.Prose.Bytes(shards.MinShard), units.Prose.Bytes(shards.MaxShard)))
			}
			return pack(cmd.Context(), args[0], args[1], shards.PackOptions{ShardSize: int64(size), Seed: seed})
		},
	}
	cmd.Flags().Var(&size, "shard-size", "bytes of a shard at the most, as in 64MiB; one sample may be larger")
	cmd.Flags().Int64Var(&seed, "seed", 1, "of the order of the samples")
	return cmd
}

// pack packs all splits of a folder.
func pack(parent context.Context, from, to string, o shards.PackOptions) error {
	if err := flags.CheckData(to); err != nil {
		return err
	}
	if source.Remote(from) {
		return cli.Misuse(errs.New("pack", "SRC", "it lies in an object store", "give a folder of this machine"))
	}
	if !source.Remote(to) && liesIn(from, to) {
		return cli.Misuse(errs.New("pack into", to, "it lies in the folder that is packed", "choose another folder"))
	}
	train, err := imagefolder.Open(from)
	if errors.Is(err, imagefolder.ErrNotFolder) {
		return errs.New("pack", from, "it is no folder of files by class",
			"give a folder with a folder of images or of .npy arrays for each class, or one of .npy arrays").Because(err)
	}
	if err != nil {
		return err
	}
	type split struct {
		name string
		*imagefolder.Dataset
	}
	splits := []split{{"", train}}
	if filepath.Clean(train.Info().Path) != filepath.Clean(from) {
		splits[0].name = "train"
		val, err := imagefolder.OpenTest(from)
		if err == nil {
			splits = append(splits, split{"val", val})
		} else if !errors.Is(err, imagefolder.ErrNotFolder) {
			return err
		}
	}
	ctx, got, stop := cli.UntilSignal(parent, nil)
	defer stop()
	progress := cli.ProgressTo(os.Stderr)
	o.To = source.New(source.Options{})
	defer o.To.Close()
	for _, s := range splits {
		dir := source.Join(to, s.name)
		began := time.Now()
		o.Looking = func(done, total int) {
			if time.Since(began) > time.Second { // most folders are through by then
				progress("looking at the files for "+dir, done, total)
			}
		}
		o.Progress = func(done, total int) { progress("packing into "+dir, done, total) }
		packed, before, err := shards.Pack(ctx, s.Dataset, dir, o)
		if sig := got(); sig != nil {
			_ = cli.Say(os.Stderr, "\nstopped: %s in %s; the same command goes on\n", units.Counted(len(packed), "shard is", "shards are"), errs.Path(dir))
			return sig
		}
		if err != nil {
			return err
		}
		if err := cli.Say(os.Stdout, "%s: %s", dir, wrote(packed, before)); err != nil {
			return err
		}
	}
	if err := cli.Say(os.Stdout, "%s", requested(o.To.Counts())); err != nil {
		return err
	}
	return cli.Say(os.Stdout, "train    gpustall run --data %s\n", markup.ShellWord(to))
}

// liesIn reports whether to is from or lies in it.
func liesIn(from, to string) bool {
	from, ferr := filepath.Abs(from)
	to, terr := filepath.Abs(to)
	rel, err := filepath.Rel(from, to)
	return errors.Join(ferr, terr, err) == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// wrote says what was packed of a split. before is the number of shards that were there already.
func wrote(packed []shards.Packed, before int) string {
	samples, bytes := 0, int64(0)
	for _, p := range packed {
		samples, bytes = samples+p.Samples, bytes+p.Bytes
	}
	text := fmt.Sprintf("%s in %s, %s", units.Counted(samples, "sample", "samples"), units.Counted(len(packed), "shard", "shards"), units.Prose.Bytes(bytes))
	switch {
	case before == len(packed):
		text += "; all of it was there already"
	case before > 0:
		text += fmt.Sprintf("; %s there already", units.Counted(before, "shard was", "shards were"))
	}
	return text + "\n"
}
