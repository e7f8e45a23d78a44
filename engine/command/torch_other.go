//go:build !linux

package command

import (
	"context"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
)

func newTorch(string) *cobra.Command {
	return &cobra.Command{
		Use:   "torch -- COMMAND [ARGS]",
		Short: "Watch a PyTorch training of your own (on Linux)",
		RunE:  func(*cobra.Command, []string) error { return needsLinux },
	}
}

func newAttach(string) *cobra.Command {
	return &cobra.Command{
		Use:   "attach PID",
		Short: "Watch a PyTorch training that runs already (on Linux)",
		RunE:  func(*cobra.Command, []string) error { return needsLinux },
	}
}

var needsLinux = errs.New("watch", "a PyTorch training", "it needs Linux", "run it there, or record a trace and use gpustall import")

func trainTuned(context.Context, *options, []string) error { return needsLinux }

func startedFor() string { return "" }
