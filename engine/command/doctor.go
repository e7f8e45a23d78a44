package command

import (
	"os"

	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"github.com/spf13/cobra"
)

func newDoctor(version string) *cobra.Command {
	var session string
	var rate float64
	cmd := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"diagnose", "check"},
		Short:      "Check this machine, or diagnose a session",
		Long: `Say what gpustall finds on this machine: devices, limits, gauges, folders.
With --session, diagnose that session instead: the symptom, and of each
finding evidence, cause, remedy and what there is to gain at the most. A
session is a file, a name that gpustall sessions lists, or latest; a segment
of it is named behind a colon.`,
		Example: `  gpustall doctor
  gpustall doctor --session latest
  gpustall doctor --session latest:#2`,
		Args: flags.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.CheckRate(rate); err != nil {
				return err
			}
			if !cmd.Flags().Changed("session") {
				return machine.Diagnose(os.Stdout, version)
			}
			a, err := diagnosis(session, rate)
			if err != nil {
				return err
			}
			return writeDiagnosis(os.Stdout, &a)
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "diagnose this session: a file, a name, or latest")
	flags.AddRate(cmd.Flags(), &rate)
	return cmd
}
