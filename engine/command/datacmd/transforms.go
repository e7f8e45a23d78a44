package datacmd

import (
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/loader/transform"
	"github.com/spf13/cobra"
)

// newTransforms lists the transforms, or checks a text of them.
func newTransforms() *cobra.Command {
	return &cobra.Command{
		Use: "transforms [TEXT]", Short: "List what --transform may be made of, or say what a text of it does",
		Example: "  gpustall data transforms\n  gpustall data transforms 'rrc(224)|hflip|normalize'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := transform.Check(args[0]); err != nil {
					return cli.Misuse(err)
				}
				return cli.Say(cmd.OutOrStdout(), "%s is right\n", args[0])
			}
			return cli.Say(cmd.OutOrStdout(), "--transform takes these, with | between them, as in '%s':\n\n%s\n%s", transform.Example, transform.Help(), transform.Notes)
		},
	}
}
