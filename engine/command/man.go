package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"dev.gpustall/engine/fault"
)

// newMan writes man pages; packagers use it, so it is hidden.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages into a folder", Hidden: true,
		Args: exactly(1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "GPUSTALL", Section: "1"}, args[0])
			return fault.Wrap(err, "write the man pages to", args[0], "name a folder that can be written to")
		},
	}
}
