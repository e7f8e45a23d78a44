package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
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
		Use:   "import TRACE|DIR",
		Short: "Make a session of a PyTorch profiler trace, or of each rank's",
		Long: `Make a session of a trace that PyTorch's profiler wrote
(prof.export_chrome_trace or torch.profiler.tensorboard_trace_handler), as
JSON or packed by gzip, zstd, bzip2 or zip; - is standard input. One that
breaks off is told as far as it goes. The session is labelled imported. It
has the step breakdown, GPU utilisation, why the GPU was idle, and what each
operator took. What the DataLoader's workers did, and the settings, are in no
trace.

Of a folder, the traces of all ranks become a folder of sessions, one a rank.
gpustall report FOLDER tells which rank the others wait for.`,
		Example: `  gpustall import trace.json.gz
  gpustall import trace.json --session trace.gpustall
  gpustall import log/  # the traces of all ranks`,
		Args: flags.Exactly(1, "one trace, or a folder of them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, got, stop := cli.UntilSignal(cmd.Context(), nil)
			defer stop()
			do := importTrace
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				do = importFolder
			}
			err := do(ctx, args[0], file, version, asJSON)
			if sig := got(); sig != nil {
				return sig
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "session", "", "session file to write, or folder of them (default: one in the state directory)")
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
	sum, err := saveTrace(snap, file)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(sum)
	}
	return cli.Say(os.Stdout, "%ssession  %s\nread it  gpustall report %[3]s, or gpustall view %[3]s\n", sum.Text(), file, called)
}

// saveTrace writes a session, and reads it again for its summary.
func saveTrace(snap *trace.Snapshot, file string) (*summary.Run, error) {
	snap.Meta.ID = baseName(file)
	if err := store.Save(file, trace.Restore(snap)); err != nil {
		return nil, err
	}
	s, err := store.Open(file)
	if err != nil {
		return nil, err
	}
	return summary.Of(all(s), file), nil
}

// rankInName finds the rank in the file name of a trace that does not contain it.
var rankInName = regexp.MustCompile(`(?i)rank[-_.]?(\d{1,6})`)

// importFolder imports the traces of a folder, one of each rank, and makes a folder of sessions.
func importFolder(ctx context.Context, path, folder, version string, asJSON bool) error {
	names := tracesOf(path)
	switch {
	case len(names) == 0:
		return errs.New("import", path, "the folder has no trace (*.json, packed or not)", oneTrace)
	case len(names) == 1:
		return importTrace(ctx, names[0], folder, version, asJSON)
	}
	if folder == "" {
		if err := cli.CheckSessionHome("name a folder with --session"); err != nil {
			return err
		}
		folder = cli.UnusedName(filepath.Join(cli.SessionDir(), traceName(filepath.Clean(path))), "")
	}
	from := map[int64]string{}
	leave := func(name, why string) {
		_ = cli.Say(os.Stderr, "gpustall: left out %s: %s\n", errs.Path(name), why)
	}
	first := int32(-1) // the number of the first step
	for _, name := range names {
		snap, err := readTrace(ctx, name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			leave(name, err.Error())
			continue
		}
		p := snap.Meta.Profile
		rank, world := p.Rank, p.World
		if m := rankInName.FindStringSubmatch(filepath.Base(name)); world == 0 && m != nil {
			rank, _ = strconv.ParseInt(m[1], 10, 64) // of six digits at the most
			world = int64(len(names))
		}
		switch {
		case world < 2:
			leave(name, "it does not say which rank wrote it, and neither does its name (as in rank0)")
			continue
		case from[rank] != "":
			leave(name, fmt.Sprintf("rank %d has another trace, %s", rank, filepath.Base(from[rank])))
			continue
		}
		if first < 0 {
			first = snap.Recent[0].Index
		} else if first != snap.Recent[0].Index {
			_ = cli.Say(os.Stderr, "gpustall: the trace of rank %d begins with step %d, the first one with step %d: steps are compared in their order\n", rank, snap.Recent[0].Index, first)
		}
		from[rank] = name
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return errs.File(err, "import", folder, "name another folder with --session")
		}
		snap.Meta.Version = version
		describeRank(snap, filepath.Base(filepath.Clean(path)), rank, world)
		file := filepath.Join(folder, fmt.Sprintf("rank%d%s", rank, store.Ext))
		sum, err := saveTrace(snap, file)
		if err != nil {
			return err
		}
		if asJSON {
			err = json.NewEncoder(os.Stdout).Encode(sum)
		} else {
			err = cli.Say(os.Stdout, "rank %-4d %s\n", rank, errs.Path(file))
		}
		if err != nil {
			return err
		}
	}
	if len(from) == 0 {
		return errs.New("import", path, "none of its files is the trace of a rank", fmt.Sprintf("import one by itself, as in gpustall import %s", names[0]))
	}
	if asJSON {
		return nil
	}
	return cli.Say(os.Stdout, "read it   gpustall report %s (all ranks), or gpustall view %s\n", folder, filepath.Join(folder, fmt.Sprintf("rank%d%s", slices.Min(slices.Collect(maps.Keys(from))), store.Ext)))
}

// describeRank records in a session which rank of a job it is about, and how long that rank exchanged
// data with others.
func describeRank(snap *trace.Snapshot, job string, rank, world int64) {
	k := trace.Rank{Rank: int(rank), Steps: int64(len(snap.Recent)), Exposed: 1} // known, although there may be none
	for i := range snap.Recent {
		st := &snap.Recent[i]
		k.Time += st.Active()
		k.Wait += st.Wait
		k.Exposed += st.Stall[trace.CauseCommunication]
	}
	k.Body = k.Time - k.Wait
	snap.AddRank(k)
	snap.Meta.Host = append(snap.Meta.Host, knob.Setting{Name: trace.JobName, Value: job},
		knob.Setting{Name: trace.JobRank, Value: strconv.FormatInt(rank, 10)}, knob.Setting{Name: trace.JobRanks, Value: strconv.FormatInt(world, 10)})
}

// readTrace calls openTrace, and ends with ctx even if the file does not answer, such as a pipe
// that nobody writes to, or a network's file system. The process ends then, and with it the blocked
// read.
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
		f, err := os.Open(path)
		if err != nil {
			return nil, errs.File(err, "import", path, oneTrace)
		}
		in, name = f, path
	}
	defer in.Close()
	return torch.Import(ctx, in, name)
}

const oneTrace = "name a trace that PyTorch's profiler exported"

// packedExt are the endings of traces that are packed.
var packedExt = []string{".gz", ".zst", ".bz2", ".zip"}

// tracesOf returns the files of a folder that may be traces.
func tracesOf(folder string) (found []string) {
	for _, ext := range append([]string{""}, packedExt...) {
		names, _ := filepath.Glob(filepath.Join(folder, "*.json"+ext))
		found = append(found, names...)
	}
	slices.Sort(found)
	return found
}

// traceName names the session of a trace after its file, without the usual endings.
func traceName(path string) string {
	name := filepath.Base(path)
	for _, ext := range append(slices.Clone(packedExt), ".json", ".trace", ".pt") {
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
