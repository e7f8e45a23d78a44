package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes man pages; packagers use it, so it is hidden.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages into a folder", Hidden: true,
		Args: exactly(1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "GPUSTALL", Section: "1"}, args[0]); err != nil {
				return fmt.Errorf("write the man pages to %s: %w", args[0], err)
			}
			return nil
		},
	}
}
