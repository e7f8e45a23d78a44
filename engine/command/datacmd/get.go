package datacmd

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/loader/download"
)

// original is a published data set: its URL, the checksum on its authors' page
// (https://www.cs.toronto.edu/~kriz/cifar.html), and its folder in the archive.
type original struct{ url, sum, folder string }

var (
	originals = map[string]original{
		"cifar10":  {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", "cifar-10-batches-bin"},
		"cifar100": {"https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8", "cifar-100-binary"},
	}
	getNames = slices.Sorted(maps.Keys(originals))
)

func newGet() *cobra.Command {
	var url, sum string
	cmd := &cobra.Command{
		Use:   "get " + strings.Join(getNames, "|") + " DIR",
		Short: "Download a published data set",
		Long: `Download the original of a published data set, check it and unpack it into
DIR, where --data finds it. The same command goes on with a download that was
stopped or broke off.`,
		Example:   `  gpustall data get cifar10 DIR`,
		Args:      flags.Exactly(2, "a data set and a folder"),
		ValidArgs: getNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, ok := originals[args[0]]
			if !ok {
				return cli.Misuse(errs.New("get data", strconv.Quote(args[0]), "there is no data set of that name", "choose "+knob.Choice(getNames)))
			}
			if url != "" {
				of.url = url
			}
			if sum != "" {
				of.sum = sum
			}
			ctx, got, stop := cli.UntilSignal(cmd.Context(), nil)
			defer stop()
			folder := filepath.Join(args[1], of.folder)
			if cli.Exists(folder) {
				_ = cli.Say(os.Stderr, "%s is there already\n", errs.Path(folder))
				return inspect(ctx, args[1], nil, flags.Images{}, false)
			}
			if err := os.MkdirAll(args[1], 0o755); err != nil {
				return errs.File(err, "get data into", args[1], "choose a folder that can be written to")
			}
			name := path.Base(originals[args[0]].url)
			archive := filepath.Join(args[1], name)
			progress := cli.ProgressTo(os.Stderr)
			err := error(nil)
			if !cli.Exists(archive) { // an earlier call may have downloaded it
				err = download.File(ctx, of.url, archive, download.Options{
					Sum:      of.sum,
					Progress: func(done, total int64) { progress("downloading "+name, int(done), int(total)) },
					Retry:    func(why error) { _ = cli.Say(os.Stderr, "%v; trying again\n", why) },
				})
			}
			if err == nil {
				progress("unpacking "+name, 0, 1)
				err = download.Unpack(ctx, archive, of.folder, args[1])
				progress("unpacking "+name, 1, 1)
			}
			if sig := got(); sig != nil {
				_ = cli.Say(os.Stderr, "\nstopped: the same command goes on\n")
				return sig
			}
			if err != nil {
				return err
			}
			if err := os.Remove(archive); err != nil {
				return errs.File(err, "remove", archive, "remove it by hand: it is unpacked")
			}
			if err := inspect(ctx, args[1], nil, flags.Images{}, false); err != nil {
				return err
			}
			return cli.Say(os.Stdout, "train    gpustall run --data %s\n", markup.ShellWord(args[1]))
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "download from this `URL` instead of its authors' site")
	cmd.Flags().StringVar(&sum, "checksum", "", fmt.Sprintf("what the file is to have, as `sha256:HEX` or md5:HEX (default: what its authors publish, for cifar10 %s)", originals["cifar10"].sum))
	return cmd
}
