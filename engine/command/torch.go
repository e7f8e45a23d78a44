//go:build linux

package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/command/metrics"
	"dev.gpustall/engine/command/script"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
	"dev.gpustall/tui"
)

func newTorch(version string) *cobra.Command {
	o := newOptions(version)
	o.interval = 10
	var plain, tune, apart bool
	var looks string
	var limits tuneFlags
	cmd := &cobra.Command{
		Use:   "torch [flags] -- COMMAND [ARGS]",
		Short: "Watch a PyTorch training of your own, and change its DataLoader live",
		Long: `Run a command that trains with PyTorch and open the screen on it: what its
DataLoader's workers do, what the device waits for, what to change. Not a line
of the script need be changed.

The exit code is the command's. Without a terminal, or with --plain, the
command has the terminal to itself and what gpustall says goes to standard
error.`,
		Example: `  gpustall torch -- python train.py --epochs 3
  gpustall torch -- torchrun --nproc-per-node 2 train.py
  gpustall torch --plain -- python train.py  # no screen: in a batch script, or for input()
  gpustall torch --tune -- python train.py   # finds the fastest settings itself
  gpustall torch --json -- python train.py   # for a program
  gpustall torch --detach -- python train.py # outlives the terminal`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Misuse(errs.New("run", "gpustall torch", "it was given no command", "write it behind --, as in gpustall torch -- python train.py"))
			}
			return nil
		},
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if tune {
				plain = true
				o.ask.Tune, err = limits.question(o)
			} else if name := limits.given(cmd.Flags()); name != "" {
				err = cli.Refuse("--"+name, "it limits a tune, and none was asked for", "add --tune")
			}
			return cmp.Or(err, o.check(cmd))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(bridge.LookRates, looks) {
				return cli.Refuse("--lines "+looks, "there is no rate of that name", "choose "+knob.Choice(bridge.LookRates))
			}
			if apart {
				return detach(o, args)
			}
			return runTorch(cmd.Context(), o, args, plain, looks)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false) // flags after the command are the command's
	fs.BoolVar(&plain, "plain", false, "no screen: lines on standard error")
	fs.BoolVar(&tune, "tune", false, "no screen: find the fastest settings of the DataLoader while it trains, prove them, and go on with them")
	fs.BoolVar(&apart, "detach", false, "start it without a terminal and return: it outlives this one, and gpustall view opens its screen")
	fs.BoolVar(&o.json, "json", false, "print NDJSON that ends in one summary object; the command's output goes to the log")
	fs.Float64Var(&o.interval, "interval", 10, "seconds between progress lines, 0.05 to 3600")
	flags.AddRate(fs, &o.gpuRate)
	fs.StringVar(&o.session, "session", "", "file to write the session to (default: in the state directory)")
	o.addMetrics(fs)
	fs.StringVar(&looks, "lines", bridge.LookRates[0], "how often lines of code are looked for, `RATE`: "+knob.Choice(bridge.LookRates)+" (on: 20 times a second, fast: 100)")
	limits.add(fs)
	fs.Lookup("knobs").Usage = "the knobs to tune, separated by commas (default: all that can be changed)"
	for _, name := range limits.names() {
		flags.SetGroup(fs, name, flags.GroupTune)
	}
	o.addScreen(fs)
	return cmd
}

// runTorch runs a training of the user's own and shows what it does. Once the command has started,
// it survives any failure of ours, and we exit with its code. What was lost is said on standard
// error.
func runTorch(parent context.Context, o *options, args []string, plain bool, looks string) error {
	if o.session != "" {
		o.session = sessionOfRank(o.session)
		if err := o.checkSession(); err != nil {
			return err // what was typed is refused before anything runs
		}
	}
	defer outlivesReaders()()
	t := &torchRun{options: o, args: args, gauged: watch.GaugedShown}
	screen := !plain && !o.json && drawable() && term.IsTerminal(int(os.Stdin.Fd()))
	if err := t.prepare(screen); err != nil {
		t.lost(err, "the command runs unwatched")
		return t.unwatchedRun()
	}
	defer t.bridge.Close()
	defer t.log.Close()
	if t.came = func() {}; t.folder != "" && t.session == "" {
		t.came = announce(t.folder, t.name())
	}
	defer t.came()
	s, err := script.Start(args, t.bridge.Environ(os.Environ()), t.log)
	if err != nil {
		return err
	}
	t.script = s
	defer s.PassSignals()()
	if t.log != nil {
		defer script.BoundLog(t.log, s.Done)()
	}
	if !screen {
		lines := time.Duration(o.interval * float64(time.Second)) // the time between two lines; each should have news
		t.bridge.Every, t.gauged = min(max(lines/2, bridge.PollShown), bridge.PollAlone), watch.GaugedAlone
	}
	t.bridge.SetLooks(looks)
	t.bridge.Watch()
	if screen {
		err = t.onScreen(parent)
	} else {
		err = t.inLines()
	}
	if err != nil {
		t.lost(err, "the command is not touched by that")
	}
	return t.ended(s)
}

// trainTuned runs a training of the user's own without a screen, and tunes it as o asks.
func trainTuned(ctx context.Context, o *options, args []string) error {
	o.interval = 10
	return runTorch(ctx, o, args, true, bridge.LookRates[0])
}

// ended returns how the command ended, which the summary may have said already.
func (t *torchRun) ended(s *script.Script) error {
	if err := s.Err(); err != nil && t.summarised {
		return cli.MarkSummarised(err)
	}
	return s.Err()
}

// outlivesReaders makes a write that nobody reads an error instead of the end of this process,
// until the returned function is called. So the training goes on behind "| head". A child gets
// SIGPIPE as it was.
func outlivesReaders() (stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGPIPE)
	return func() { signal.Stop(ch) }
}

// prepare makes the bridge that watches the training, and the log if the command does not have
// the terminal.
func (t *torchRun) prepare(screen bool) (err error) {
	if t.bridge, err = bridge.Open(); err != nil {
		return err
	}
	var missing error
	if t.folder, missing = placeForSessions(); missing != nil && t.session == "" {
		t.lost(missing, "no session is written")
	}
	if screen || t.json {
		if t.log, err = t.openLog(); err != nil {
			_ = t.bridge.Close()
		}
	}
	return err
}

// placeForSessions returns the folder of sessions. If that cannot be made or written to, it returns
// a folder of this user's among the temporary files.
func placeForSessions() (string, error) {
	var failed error
	for _, dir := range []string{cli.SessionDir(), filepath.Join(os.TempDir(), fmt.Sprintf("gpustall-%d", os.Getuid()), "sessions")} {
		if dir == cli.SessionDir() && cli.CheckSessionHome("") != nil {
			continue
		}
		err := cli.MakeWritable(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", errs.Wrap(failed, "make", "a folder for the session", "set XDG_STATE_HOME to one that can be written to, or name a file with --session")
}

// lost says which part of gpustall failed, and what follows.
func (t *torchRun) lost(err error, so string) {
	_ = cli.Say(os.Stderr, "gpustall: %v; %s\n", err, so)
}

// unwatchedRun runs the command as if gpustall were not there.
func (t *torchRun) unwatchedRun() error {
	s, err := script.Start(t.args, os.Environ(), nil)
	if err != nil {
		return err
	}
	defer s.PassSignals()()
	<-s.Done
	if t.json {
		t.summarised = cli.WriteFailure(os.Stdout, cmp.Or[error](s.Err(), t.unseen())) == nil
	}
	return t.ended(s)
}

// torchRun is a watched training of the user's.
type torchRun struct {
	*options
	bridge *bridge.Bridge
	script *script.Script
	args   []string
	folder string        // of the session; empty where there is no place for one
	ranked bool          // the training is distributed
	gauged time.Duration // time between two samples of the host
	taken  *captures
	log    *os.File // of the script's output; nil if the script has the terminal

	summarised bool   // JSON has said how the run ended
	came       func() // says that the session has begun

	recording *recording // nil until a loop has had its first batch
}

// openLog makes a new file for the script's output, beside the session. It is opened for
// appending, because the script may open its standard output once more.
func (t *torchRun) openLog() (*os.File, error) {
	const ext = ".log"
	name := filepath.Join(cmp.Or(t.folder, os.TempDir()), t.name())
	if t.session != "" {
		if name = t.session; filepath.Ext(name) != ext {
			name = strings.TrimSuffix(name, filepath.Ext(name))
		}
	}
	places := []string{name}
	if other := filepath.Join(os.TempDir(), filepath.Base(name)); other != name {
		places = append(places, other)
	}
	var failed error
	for _, place := range places {
		f, err := newLog(place, ext)
		if err == nil {
			return f, nil
		}
		failed = errors.Join(failed, err)
	}
	f, err := script.LogInMemory()
	if err == nil {
		t.lost(failed, "what the command prints is kept in memory, and lost with its end")
	}
	return f, err
}

// newLog makes a log if its disk has room, because the command's print would fail on a full
// disk.
func newLog(name, ext string) (*os.File, error) {
	for {
		f, err := os.OpenFile(cli.UnusedName(name, ext), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if errors.Is(err, os.ErrExist) { // another run has just made that file
			continue
		}
		if err == nil {
			if err = script.Reserve(f); err != nil {
				_ = f.Close()
				_ = os.Remove(f.Name())
			}
		}
		if err != nil {
			return nil, errs.File(err, "write the log", name+ext, "name a session in a folder that can be written to with --session")
		}
		return f, nil
	}
}

// name returns the name of the session.
func (t *torchRun) name() string {
	return fmt.Sprintf("%s-%s-torch", t.bridge.Clock.Origin().Format("20060102-150405"), scriptName(t.args))
}

// scriptName returns the name of what a command runs: train for "python -u train.py --lr 1".
func scriptName(args []string) string {
	name := filepath.Base(args[0])
	for i, a := range args {
		if strings.HasSuffix(a, ".py") {
			name = strings.TrimSuffix(filepath.Base(a), ".py")
			break
		}
		if a == "-m" && i+1 < len(args) {
			name = args[i+1]
			break
		}
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' {
			return '-'
		}
		return r
	}, name)
}

// begin makes the session of a loop that has had its first batch.
func (t *torchRun) begin(first *bridge.Start) {
	meta := t.meta(first)
	var kept trace.Store // none where it cannot be made: the session is in memory alone
	file := filepath.Join(t.folder, meta.ID+store.Ext)
	if t.session != "" || t.folder != "" {
		st, path, err := t.createStore(t.folder, meta)
		if err != nil {
			t.lost(err, "no session is written")
		} else {
			kept = st
		}
		file = path
	}
	r := &recording{file: file, recorder: trace.NewRecorder(t.bridge.Clock, trace.DefaultCapacity)}
	r.begin(meta, kept, first.Since)
	r.collector.Due = t.bridge.Polled
	t.came()
	t.recording, t.ranked = r, first.Hello.World > 1
	t.bridge.Control.Predict = r.predict
	t.taken = &captures{of: r, control: t.bridge.Control, meta: &meta}
	t.bridge.Captured = t.taken.came
	t.bridge.Record(r.recorder)
	r.collector.Start()
	training := watch.Training{Root: t.script.PID(), Hello: &first.Hello, GPU: t.bridge.GPU, Did: t.bridge.Did}
	r.gauges = watch.StartTrainingGauges(r.recorder, training, t.gauged)
	r.watch(t.bridge.Control, func([]knob.Setting) (int64, string) { return 0, "" })
	r.export(metricsOfRank(t.metrics))
	if h := &first.Hello; h.Store != "" && bridge.AtLeast(h.Torch, 2, 4) {
		r.fleet = watch.StartFleet(r.recorder, watch.Job{Store: h.Store, Name: h.Job, Rank: max(0, h.Rank), World: h.World, Node: node(), Session: r.session})
	}
	r.recorder.Note("info", "watching process "+fmt.Sprint(first.Hello.PID)+": PyTorch "+first.Hello.Torch+", Python "+first.Hello.Python)
	if when := first.Loader.When(); when != "" {
		r.recorder.Note("info", when)
	}
}

// meta describes the training for its session.
func (t *torchRun) meta(first *bridge.Start) trace.Meta {
	h, l := &first.Hello, &first.Loader
	device := h.Device()
	m := trace.Meta{
		Version: t.version, Started: t.bridge.Clock.Origin(), Command: mask.Args(os.Args), ID: t.name(),
		Device: device.Name, DeviceKind: device.Kind, Emulated: h.Stand,
		Model: scriptName(t.args), Dataset: l.Dataset, Format: "PyTorch, " + l.Style + "-style", Samples: l.Samples,
		Host: machine.Facts(), Specs: bridge.Specs(h, l, &first.Batch), GPURate: t.gpuRate,
	}
	m.Host = append(m.Host, knob.Setting{Name: "torch", Value: h.Torch}, knob.Setting{Name: trace.TorchThreads, Value: fmt.Sprint(h.Threads)},
		knob.Setting{Name: "python", Value: h.Python})
	if h.Policy != "" {
		m.Host = append(m.Host, knob.Setting{Name: trace.TorchWaitPolicy, Value: h.Policy})
	}
	if l.Context != "" {
		m.Host = append(m.Host, knob.Setting{Name: trace.WorkerStart, Value: l.Context})
	}
	if l.Sent > 0 {
		m.Host = append(m.Host, knob.Setting{Name: trace.WorkerSent, Value: units.Prose.Bytes(l.Sent)})
	}
	if len(l.Arguments) > 0 {
		m.Host = append(m.Host, knob.Setting{Name: trace.LoaderArguments, Value: strings.Join(l.Arguments, ", ")})
	}
	if l.Unbatched {
		m.Host = append(m.Host, knob.Setting{Name: trace.SampleIs, Value: "what the data set yields at once"})
	}
	if l.ByOptimizer() {
		m.Format = "PyTorch, no DataLoader"
		m.Host = append(m.Host, knob.Setting{Name: trace.SampleIs, Value: trace.SampleIsStep})
	}
	if l.Alone {
		m.Host = append(m.Host, knob.Setting{Name: trace.LoopWaits, Value: "not known"})
	}
	if l.Whole {
		m.Host = append(m.Host, knob.Setting{Name: trace.WorkersYield, Value: "all samples each"})
	}
	if b := &first.Batch; b.Tensors > 0 {
		m.Host = append(m.Host, knob.Setting{Name: trace.BatchOf, Value: fmt.Sprintf("%s, %s in all", units.Counted(int(b.Tensors), "tensor", "tensors"),
			units.Prose.Bytes(b.Bytes))})
	}
	if first.Batch.OnGPU > 0 {
		m.Host = append(m.Host, knob.Setting{Name: "torch batches", Value: "made on the GPU"})
	}
	if h.World > 1 {
		m.ID += rankedName(h)
		add := func(name, value string) { m.Host = append(m.Host, knob.Setting{Name: name, Value: value}) }
		add(trace.JobRanks, fmt.Sprint(h.World))
		if h.Here > 0 {
			add(trace.JobHere, fmt.Sprint(h.Here))
		}
		add(trace.JobRank, fmt.Sprint(max(0, h.Rank)))
		if h.Job != "" {
			add(trace.JobName, h.Job)
		}
		if name := node(); name != "" {
			add(trace.JobNode, name)
		}
	}
	return m
}

// node returns the name of this machine; empty where it has none.
func node() string {
	name, _ := os.Hostname()
	return name
}

// startedFor returns the rank for which a launcher started this gpustall, if the launcher starts one for
// each rank. Otherwise it is empty. The batch script of a Slurm job may have tasks too, but has no step.
func startedFor() string {
	for _, v := range []struct{ rank, of, within string }{{"RANK", "WORLD_SIZE", "RANK"}, {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"}} {
		if n, err := strconv.Atoi(os.Getenv(v.of)); err == nil && n > 1 && os.Getenv(v.within) != "" {
			return os.Getenv(v.rank)
		}
	}
	return ""
}

// sessionOfRank turns the name of --session, which is the same for all ranks, into the rank's own. It
// has the rank's number before its extension.
func sessionOfRank(path string) string {
	rank := startedFor()
	if rank == "" {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-rank" + rank + ext
}

// metricsOfRank turns the value of --metrics, which is the same for all ranks, into the rank's own. The
// port of rank 3 is three higher, and a file has the rank in its name.
func metricsOfRank(to string) string {
	address, listens := metrics.Address(to)
	if !listens {
		return sessionOfRank(to)
	}
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	rank, err := strconv.Atoi(startedFor())
	if err != nil || n == 0 {
		return to
	}
	return net.JoinHostPort(host, strconv.Itoa(n+rank))
}

// rankedName returns a part of the session's name that tells a rank's session from those of other ranks.
// A folder that all machines share may get these in the same second. It is empty if one gpustall watches
// all ranks.
func rankedName(h *bridge.Hello) string {
	if h.Here == h.World && h.Rank == 0 && startedFor() == "" {
		return ""
	}
	host, _, _ := strings.Cut(node(), ".")
	name := ""
	for _, part := range []string{h.Job, fmt.Sprintf("rank%d", max(0, h.Rank)), host} {
		part = strings.Map(func(r rune) rune {
			if r == '-' || r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return '_'
		}, part)
		if part != "" {
			name += "-" + part[:min(len(part), 24)]
		}
	}
	return name
}

// end completes the session. It is called when the script has ended.
func (t *torchRun) end() error {
	if t.recording == nil {
		return nil
	}
	r := t.recording
	r.unwatch()
	t.bridge.Stop()
	t.taken.wait.Wait()
	out := trace.Outcome{Ended: r.recorder.Now(), Status: "finished"}
	if err := t.script.Err(); err != nil {
		out.Status, out.Error = cli.StatusOf(err), err.Error()
		r.recorder.Note("error", out.Error)
	}
	return r.complete(out)
}

// keep returns the line of the script with the settings to keep, or says what would show which
// these are. It is empty if nothing was measured.
func (t *torchRun) keep() string {
	s := all(t.recording.session)
	rows := attribution.Segments(s)
	a, at := advice.Overall(s, rows)
	if a.Keep.Text == "" || s.Total.Steps == 0 {
		return ""
	}
	if a.Keep.Open {
		return fmt.Sprintf("%-*s%s\n", cli.LabelWidth, "keep", a.Keep.Text)
	}
	line, _ := report.DataLoader(s.Meta.Host, rows[at.Kept].Segment.Knobs, a.Keep.Knobs)
	return fmt.Sprintf("%-*s%s\n", cli.LabelWidth, "keep", line)
}

// otherLoops says how to watch a loop without a DataLoader.
const otherLoops = `gpustall: a loop in which no optimizer of PyTorch's steps three times is watched with two lines in the script:
    import gpustall
    for batch in gpustall.watch(batches): ...    # or, where a step ends: gpustall.step(len(batch))
`

// unwatched says why no loop of the script was seen.
func (t *torchRun) unwatched() string {
	const report = ", so there is nothing to report\n"
	otherLoops := otherLoops
	if t.script.Err() != nil { // it may have failed before its loop
		otherLoops = ""
	}
	switch told, imported := t.bridge.Heard(); {
	case !told && !imported && t.script.Err() != nil:
		return "gpustall: the command failed before any process of it imported PyTorch" + report
	case told:
		return "gpustall: no batch was loaded for training by torch.utils.data.DataLoader" + report + otherLoops
	case imported:
		return "gpustall: the command took no batch from torch.utils.data.DataLoader" + report + otherLoops
	}
	return "gpustall: PyTorch was imported by no process that could be watched (a Python run with -I, -E or -S cannot be)" + report
}

// inLines watches the training without a screen, and prints a line now and then.
func (t *torchRun) inLines() error {
	var out, log io.Writer = script.NewBeside(os.Stderr), script.NewBeside(os.Stderr)
	if t.json {
		out = os.Stdout
	}
	if seen, err := t.wait(func() {}); !seen {
		return err
	}
	t.recording.tries.Ask(t.ask.List(), func(err error) {
		if err != nil {
			t.recording.recorder.Note("warn", "no tune: "+err.Error())
		}
	})
	p := printer{of: t.recording, summarise: t.recording.summarise, opts: t.options, out: out, log: log, unread: func() {}}
	if t.log == nil { // the script writes there as well
		p.said = t.bridge.Said
	}
	p.start()
	<-t.script.Done
	p.stop()
	err := t.end()
	perr := p.summary(t.script.Err())
	t.summarised = t.json && perr == nil
	if !t.json {
		_ = cli.Say(out, "%s%s", t.keep(), t.kept())
	}
	if errors.Is(perr, syscall.EPIPE) {
		perr = nil // the reader has gone, which is no failure of ours
	}
	return errors.Join(err, perr)
}

// wait waits for the first batch of a loop that trains, and begins the session. It returns false
// if the script ended without one. Meanwhile it calls f 20 times a second.
func (t *torchRun) wait(f func()) (seen bool, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var first bridge.Start
	begun, patience := time.Now(), firstPatience
	for !seen {
		select {
		case <-tick.C:
			f()
			if waited := time.Since(begun); waited > patience {
				patience *= 4
				_ = cli.Say(os.Stderr, "gpustall: %s after the start, %s\n", units.Prose.Time(waited.Truncate(time.Second).Nanoseconds()), t.awaited())
			}
		case first = <-t.bridge.First():
			seen = true
		case <-t.script.Done:
			f()
			t.bridge.LastLook()
			select {
			case first = <-t.bridge.First(): // a short run
				seen = true
			default:
				return false, t.nothing(os.Stderr)
			}
		}
	}
	t.begin(&first)
	return true, nil
}

// firstPatience is how long the run waits for the first batch before it says that it
// waits.
const firstPatience = 3 * time.Second

// awaited says what is still to come before the first batch.
func (t *torchRun) awaited() string {
	if _, imported := t.bridge.Heard(); !imported {
		return "the command has not imported PyTorch's DataLoader yet"
	}
	return "no batch has been loaded for training yet"
}

// noTerminal returns a line for a script that failed because it asked for input beside the
// screen. It looks at the end of the output.
func (t *torchRun) noTerminal() string {
	if t.log == nil || t.script.Err() == nil {
		return ""
	}
	end := make([]byte, 256)
	info, err := os.Stat(t.log.Name())
	if err != nil {
		return ""
	}
	n, _ := t.log.ReadAt(end, max(0, info.Size()-int64(len(end))))
	if !bytes.Contains(end[:n], []byte("EOFError")) {
		return ""
	}
	return "gpustall: the command has no terminal to read from beside the screen; with gpustall torch --plain it has\n"
}

// nothing ends a run in which no loop was seen.
func (t *torchRun) nothing(log io.Writer) error {
	_ = cli.Say(log, "%s", t.noTerminal())
	_ = cli.Say(log, "%s", t.unwatched())
	if t.json {
		t.summarised = cli.WriteFailure(os.Stdout, cmp.Or[error](t.script.Err(), t.unseen())) == nil
	}
	return nil
}

func (t *torchRun) unseen() unseen {
	return unseen{errs.New("watch", strings.Join(mask.Args(t.args), " "), "no training loop was seen", "see docs/guide/torch.md")}
}

// unseen says that no loop of a successful script was seen. The exit code is the script's
// nevertheless.
type unseen struct{ error }

func (e unseen) Unwrap() error { return e.error }
func (e unseen) ExitCode() int { return cli.ExitOK }

// onScreen shows the script's output until the first batch of the training, and then the screen.
func (t *torchRun) onScreen(parent context.Context) error {
	output := script.OpenOutput(t.log.Name())
	_ = cli.Say(os.Stderr, "gpustall: the screen opens with the first batch that is loaded for training, or the third step of an optimizer without one\n")
	if seen, err := t.wait(func() { output.Copy(os.Stdout) }); !seen {
		return err
	}
	restore := restorer()
	defer cli.RestoreAtPanic(restore)
	go output.Follow(t.script.Done)
	ended := make(chan error, 1)
	go func() {
		<-t.script.Done
		ended <- t.end()
	}()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	defer context.AfterFunc(t.script.Told, cancel)() // a signal for the script closes the screen too
	screenErr := show(ctx, restore, tui.Options{
		Source: t.recording.session, Control: t.bridge.Control, FPS: t.fps, ASCII: t.ascii, NoColor: t.noColor, Theme: t.theme,
		Experiments: t.recording.tries, Baseline: t.recording.recorder.Baseline, Note: t.recording.recorder.Note, Foresee: t.foresee, Output: output.Tail, Ranks: t.ranked, Lines: true,
		Capture: t.taken.ask, Looks: t.bridge,
		Export: func() (string, error) {
			return exportReport(t.recording.session, baseName(t.recording.file), t.recording.file)
		},
	})
	if errors.Is(screenErr, tui.ErrInterrupted) || errors.Is(screenErr, context.Canceled) {
		screenErr = nil
	}
	t.script.Finish(os.Stderr)
	err := errors.Join(screenErr, <-ended)
	sum := t.recording.summarise(t.script.Err())
	_ = cli.Say(os.Stderr, "%s", t.noTerminal())
	_ = cli.Say(os.Stdout, "%s%s%s", sum.Text(), t.keep(), t.kept())
	if !script.IsInMemory(t.log) {
		_ = cli.Say(os.Stdout, "%-*s%s\n", cli.LabelWidth, "output", t.log.Name())
	}
	if cli.Exists(t.recording.file) {
		_ = cli.Say(os.Stdout, "again    gpustall view %s\n", t.recording.id())
	}
	return err
}

// kept says where the session is; nothing where none could be written.
func (t *torchRun) kept() string {
	if t.session == "" && t.folder == "" {
		return ""
	}
	kept, _ := t.recording.kept()
	return kept
}

// foresee says what may go wrong with changes.
func (t *torchRun) foresee(changes []knob.Setting) (text string, grave bool) {
	return t.bridge.Foresee(changes)
}
