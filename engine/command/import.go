package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/torch"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

func newImport(version string) *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import TRACE",
		Short: "Make a session of a PyTorch profiler trace",
		Long: `Make a session of a trace that PyTorch's profiler wrote
(prof.export_chrome_trace or torch.profiler.tensorboard_trace_handler), as
JSON or compressed by gzip; - is standard input. The session is labelled
imported. It has the step breakdown, GPU utilisation, why the GPU was idle,
and what each operator took. What the DataLoader's workers did, and the
settings, are in no trace.`,
		Example: `  gpustall import trace.json.gz
  gpustall import trace.json --session trace.gpustall
  gpustall report latest`,
		Args: flags.Exactly(1, "one trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, got, stop := cli.UntilSignal(cmd.Context(), nil)
			defer stop()
			err := importTrace(ctx, args[0], file, version, asJSON)
			if sig := got(); sig != nil {
				return sig
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "session", "", "session file to write (default: one in the state directory)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one summary object, as run has it")
	return cmd
}

// importTrace imports a trace and saves it as a session.
func importTrace(ctx context.Context, path, file, version string, asJSON bool) error {
	snap, err := readTrace(ctx, path)
	if err != nil {
		return err
	}
	snap.Meta.Version = version
	called := file
	if file == "" {
		if err := cli.CheckSessionHome("name a file with --session"); err != nil {
			return err
		}
		file = cli.UnusedName(filepath.Join(cli.SessionDir(), traceName(path)), store.Ext)
		called = baseName(file)
	}
	snap.Meta.ID = baseName(file)
	if err := store.Save(file, trace.Restore(snap)); err != nil {
		return err
	}
	s, err := store.Open(file)
	if err != nil {
		return err
	}
	sum := summary.Of(all(s), file)
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(sum)
	}
	return cli.Say(os.Stdout, "%ssession  %s\nread it  gpustall report %[3]s, or gpustall view %[3]s\n", sum.Text(), file, called)
}

// readTrace is openTrace, and ends with ctx even where the file does not answer: a pipe that nobody
// writes to, or a network's file system. The process ends then, and the blocked read with it.
func readTrace(ctx context.Context, path string) (*trace.Snapshot, error) {
	var snap *trace.Snapshot
	done := make(chan error, 1)
	go func() {
		var err error
		snap, err = openTrace(ctx, path)
		done <- err
	}()
	select {
	case err := <-done:
		return snap, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// openTrace imports the trace at path, or standard input.
func openTrace(ctx context.Context, path string) (*trace.Snapshot, error) {
	var in io.ReadCloser = os.Stdin
	name := "standard input"
	if path != "-" {
		const hint = "name a trace that PyTorch's profiler exported"
		f, err := os.Open(path)
		if err != nil {
			return nil, errs.File(err, "import", path, hint)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, errs.New("import", path, "it is a folder", oneTrace(path, hint))
		}
		in, name = f, path
	}
	defer in.Close()
	return torch.Import(ctx, in, name)
}

// oneTrace says which trace of a folder could be meant. A folder has one for each rank, and for
// each time that a schedule recorded.
func oneTrace(folder, hint string) string {
	var found []string
	for _, pattern := range []string{"*.json", "*.json.gz"} {
		names, _ := filepath.Glob(filepath.Join(folder, pattern))
		found = append(found, names...)
	}
	if len(found) == 0 {
		return hint
	}
	return fmt.Sprintf("import one of its %s by itself, as in gpustall import %s", units.Counted(len(found), "file", "files"), slices.Min(found))
}

// traceName names the session of a trace after its file, without the usual endings.
func traceName(path string) string {
	name := filepath.Base(path)
	for _, ext := range []string{".gz", ".json", ".trace", ".pt"} {
		name = strings.TrimSuffix(name, ext)
	}
	if name == "" || name == "-" || name == "." {
		name = "imported"
	}
	return strings.Map(func(r rune) rune { // the name is typed in shells
		if r <= ' ' || strings.ContainsRune("[]{}()*?$&;|<>'\"`\\!#~", r) {
			return '-'
		}
		return r
	}, name)
}
