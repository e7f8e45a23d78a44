//go:build !linux

package command

import (
	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
)

func newTorch(string) *cobra.Command {
	return &cobra.Command{
		Use:   "torch -- COMMAND [ARGS]",
		Short: "Watch a PyTorch training of your own (on Linux)",
		RunE: func(*cobra.Command, []string) error {
			return errs.New("watch", "a PyTorch training", "it needs Linux", "run it there, or record a trace and use gpustall import")
		},
	}
}
