//go:build linux

package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/command/script"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/report"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui"
)

func newTorch(version string) *cobra.Command {
	o := newOptions(version)
	o.interval = 10
	var tune, apart bool
	var how watching
	var limits tuneFlags
	cmd := &cobra.Command{
		Use:        "torch [flags] -- COMMAND [ARGS]",
		SuggestFor: []string{"pytorch"},
		Short:      "Watch a PyTorch training of your own, and change its DataLoader live",
		Long: `Run a command that trains with PyTorch and open the screen on it: what its
DataLoader's workers do, what the device waits for, what to change. Not a line
of the script need be changed.

The exit code is the command's. Without a terminal, or with --plain, the
command has the terminal to itself and what gpustall says goes to standard
error.`,
		Example: `  gpustall torch -- python train.py --epochs 3
  gpustall torch --plain -- torchrun --nproc-per-node 2 train.py  # without a screen
  gpustall torch --tune -- python train.py                        # finds the fastest settings`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Misuse(errs.New("run", "gpustall torch", "it was given no command", "write it behind --, as in gpustall torch -- python train.py"))
			}
			return nil
		},
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if tune {
				how.plain = true
				o.ask.Tune, err = limits.question(o)
			} else if name := limits.given(cmd.Flags()); name != "" {
				err = cli.Refuse("--"+name, "it limits a tune, and none was asked for", "add --tune")
			}
			return cmp.Or(err, o.check(cmd))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := how.check(); err != nil {
				return err
			}
			if apart {
				return detach(o, args)
			}
			return runTorch(cmd.Context(), o, args, how)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false) // flags after the command are the command's
	fs.VarPF((*settingsFlag)(&how.set), "set", "", "a `KNOB=VALUE` that the training gets with its first batches, as num_workers=8; may be repeated")
	flags.SetSettings(fs, "set", bridge.Live)
	fs.IntVar(&o.steps, "steps", 0, "interrupt the command after N steps with these settings, as ctrl+c does, which then counts as its end (default: no limit)")
	o.addWatching(fs, &how)
	fs.Lookup("json").Usage += "; the command's output goes to the log"
	fs.BoolVar(&tune, "tune", false, "no screen: find the fastest settings of the DataLoader while it trains, prove them, and go on with them")
	fs.BoolVar(&apart, "detach", false, "start it without a terminal and return: it outlives this one, and gpustall view opens its screen")
	limits.add(fs)
	fs.Lookup("knobs").Usage = "the knobs to tune, separated by commas (default: all that can be changed)"
	for _, name := range limits.names() {
		flags.SetGroup(fs, name, flags.GroupTune)
	}
	o.addScreen(fs)
	return cmd
}

// watching says how a training is watched.
type watching struct {
	plain bool
	looks string         // one of bridge.LookRates
	ranks string         // one of rankScopes
	set   []knob.Setting // from the first batches on
}

// settingsFlag is a flag of a knob and its value, which may be repeated.
type settingsFlag []knob.Setting

func (f *settingsFlag) String() string { return "" }
func (f *settingsFlag) Type() string   { return "KNOB=VALUE" }

// Set adds a setting.
func (f *settingsFlag) Set(text string) error {
	k, err := settingOf(text)
	if err == nil && !slices.Contains(bridge.Live, k.Name) {
		err = errs.New("set", text, "it is no knob that can be changed while a script trains", "choose "+knob.Choice(bridge.Live))
	}
	*f = append(*f, k)
	return err
}

// rankScopes are which ranks of a distributed training are told of: all of the job, or those of this machine.
var rankScopes = []string{"all", "here"}

// addWatching adds the flags of commands that watch a training.
func (o *options) addWatching(fs *pflag.FlagSet, w *watching) {
	fs.BoolVar(&w.plain, "plain", false, "no screen: lines on standard error")
	fs.BoolVar(&o.json, "json", false, "print NDJSON that ends in one summary object")
	fs.Float64Var(&o.interval, "interval", 10, "seconds between progress lines, 0.05 to 3600")
	flags.AddRate(fs, &o.gpuRate)
	fs.StringVar(&o.session, "session", "", "file to write the session to (default: in the state directory)")
	o.addMetrics(fs)
	fs.StringVar(&w.looks, "lines", bridge.LookRates[0], "how often lines of code are looked for, `RATE`: "+knob.Choice(bridge.LookRates)+" (on: 20 times a second, fast: 100)")
	fs.StringVar(&w.ranks, "ranks", rankScopes[0], "which ranks are told of, `RANKS`: "+knob.Choice(rankScopes)+" (here: nothing is written into the job's store, so ranks on other machines are not seen)")
}

func (w *watching) check() error {
	switch {
	case !slices.Contains(bridge.LookRates, w.looks):
		return cli.Refuse("--lines "+w.looks, "there is no rate of that name", "choose "+knob.Choice(bridge.LookRates))
	case !slices.Contains(rankScopes, w.ranks):
		return cli.Refuse("--ranks "+w.ranks, "there is no choice of that name", "choose "+knob.Choice(rankScopes))
	}
	return nil
}

// runTorch runs a training of the user's own and shows what it does. Once the command has started,
// it survives any failure of ours, and we exit with its code. What was lost is said on standard
// error.
func runTorch(parent context.Context, o *options, args []string, how watching) error {
	if o.session != "" {
		o.session = sessionOfRank(o.session)
		if err := o.checkSession(); err != nil {
			return err // what was typed is refused before anything runs
		}
	}
	defer outlivesReaders()()
	t := &torchRun{options: o, args: args, how: how, gauged: watch.GaugedShown}
	screen := t.drawn()
	if err := t.prepare(screen || t.json); err != nil {
		t.lost(err, "the command runs unwatched")
		return t.unwatchedRun()
	}
	defer t.bridge.Close()
	defer t.log.Close()
	defer t.announce()()
	s, err := script.Start(args, t.bridge.Environ(os.Environ()), t.log)
	if err != nil {
		return err
	}
	defer s.PassSignals()()
	return t.watch(parent, s, screen)
}

// watch watches a training until it ends, and shows what it does. The caller passes signals on.
func (t *torchRun) watch(parent context.Context, s *script.Script, screen bool) (err error) {
	o := t.options
	t.script = s
	if t.log != nil {
		defer script.BoundLog(t.log, s.Done)()
	}
	if !screen {
		lines := time.Duration(o.interval * float64(time.Second)) // the time between two lines; each should have news
		t.bridge.Every, t.gauged = min(max(lines/2, bridge.PollShown), bridge.PollAlone), watch.GaugedAlone
	}
	t.bridge.SetLooks(t.how.looks)
	t.bridge.Watch()
	if screen {
		err = t.onScreen(parent)
	} else {
		err = t.inLines()
	}
	if err != nil {
		t.lost(err, "the command is not touched by that")
	}
	return t.ended()
}

// trainTuned runs a training of the user's own without a screen, and tunes it as o asks.
func trainTuned(ctx context.Context, o *options, args []string) error {
	o.interval = 10
	return runTorch(ctx, o, args, watching{plain: true, looks: bridge.LookRates[0], ranks: rankScopes[0]})
}

// ended returns how the command ended, which the summary may have said already.
func (t *torchRun) ended() error {
	err := t.err()
	if err != nil && t.summarised {
		return cli.MarkSummarised(err)
	}
	return err
}

// outlivesReaders makes a write that nobody reads, or that makes a file larger than ulimit -f allows, an error instead
// of the end of this process, until the returned function is called. So the training goes on behind "| head". A child
// gets the signals as they were.
func outlivesReaders() (stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGPIPE, syscall.SIGXFSZ)
	return func() { signal.Stop(ch) }
}

// drawn reports whether the run has a screen.
func (t *torchRun) drawn() bool {
	return !t.how.plain && !t.json && drawable()
}

// announce says where the session will be, until it is there or the function that it returns is called.
func (t *torchRun) announce() (over func()) {
	if t.came = func() {}; t.folder != "" && t.session == "" {
		t.came = announce(t.folder, t.name())
	}
	return t.came
}

// prepare makes the bridge that watches the training, and the log if one is needed because the command does
// not have the terminal.
func (t *torchRun) prepare(logs bool) (err error) {
	if t.bridge, err = bridge.Open(); err != nil {
		return err
	}
	var missing error
	if t.folder, missing = placeForSessions(); missing != nil && t.session == "" {
		t.lost(missing, "no session is written")
	}
	if logs {
		if t.log, err = t.openLog(); err != nil {
			_ = t.bridge.Close()
		}
	}
	return err
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
	t.script = s
	defer s.PassSignals()()
	<-s.Done
	if t.json {
		t.summarised = cli.WriteFailure(os.Stdout, cmp.Or[error](s.Err(), t.unseen())) == nil
	}
	return t.ended()
}

// torchRun is a watched training of the user's.
type torchRun struct {
	*options
	bridge  *bridge.Bridge
	script  *script.Script
	args    []string
	of      string // the process that is attached to; empty where this run has started it
	how     watching
	folder  string        // of the session; empty where there is no place for one
	ranked  bool          // the training is distributed, and ...
	follows bool          // ... the gpustall of another rank changes the knobs of all
	gauged  time.Duration // time between two samples of the host
	taken   *captures
	log     *os.File // of the script's output; nil if the script has the terminal

	limit      stepLimit
	summarised bool   // JSON has said how the run ended
	came       func() // says that the session has begun

	recording *recording // nil until a loop has had its first batch
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
	t.limit.stop()
	out := trace.Outcome{Ended: r.recorder.Now(), Status: "finished"}
	if err := t.err(); err != nil {
		out.Status, out.Error = cli.StatusOf(err), err.Error()
		if r.fleet != nil && out.Status == "failed" {
			if first := r.fleet.FirstGone(); first != "" {
				out.Error += "; " + first
			}
		}
		r.recorder.Note("error", out.Error)
	}
	return r.complete(out)
}

// keptLine returns the line of the script with the settings to keep, or says what would show which
// these are. It is empty if nothing is known to be better.
func keptLine(s *trace.Snapshot) string {
	rows := attribution.Segments(s)
	a, at := advice.Overall(s, rows)
	if len(a.Keep.Knobs) == 0 && !a.Keep.Open {
		return ""
	}
	if a.Keep.Open {
		return fmt.Sprintf("%-*s%s\n", cli.LabelWidth, "settings", a.Keep.Text)
	}
	line, _ := report.DataLoader(s.Meta.Host, rows[at.Kept].Segment.Knobs, a.Keep.Knobs)
	return fmt.Sprintf("%-*s%s\n", cli.LabelWidth, "code", line)
}

// otherLoops says how to watch a loop without a DataLoader.
const otherLoops = `gpustall: a loop in which neither an optimizer of PyTorch's steps three times nor 20 backward passes run is watched with two lines in the script:
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
		return "gpustall: " + cmp.Or(t.of, "the command") + " took no batch from torch.utils.data.DataLoader" + report + otherLoops
	}
	if t.of != "" {
		return "gpustall: " + t.of + " has not imported PyTorch" + report
	}
	return "gpustall: PyTorch was imported by no process that could be watched (one run with -I, -E or -S, or with a PYTHONPATH of its own, cannot be)" + report
}

// inLines watches the training without a screen, and prints a line now and then.
func (t *torchRun) inLines() error {
	var out, log io.Writer = script.NewBeside(os.Stderr), script.NewBeside(os.Stderr)
	if t.json {
		out = os.Stdout
	}
	if seen, err := t.wait(func(int) {}); !seen {
		return err
	}
	questions := t.ask.List()
	if t.follows && len(questions) > 0 {
		questions = nil
		t.recording.recorder.Note("info", "no tune here: what the gpustall of rank 0 finds holds for all ranks")
	}
	t.recording.tries.Ask(questions, func(err error) {
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
	perr := p.summary(t.err())
	t.summarised = t.json && perr == nil
	if !t.json {
		_ = cli.Say(out, "%s%s", keptLine(all(t.recording.session)), t.kept())
	}
	if errors.Is(perr, syscall.EPIPE) {
		perr = nil // the reader has gone, which is no failure of ours
	}
	return errors.Join(err, perr)
}

// wait waits for the first batch of a loop that trains, and begins the session. It returns false
// if the script ended without one. Meanwhile it calls f 20 times a second, with how many bytes of output it may show.
func (t *torchRun) wait(f func(most int)) (seen bool, err error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var first bridge.Start
	begun, patience := time.Now(), firstPatience
	for !seen {
		select {
		case <-tick.C:
			f(outputAtOnce)
			if waited := time.Since(begun); waited > patience {
				patience *= 4
				_ = cli.Say(os.Stderr, "gpustall: %s after the start, %s\n", units.Prose.Time(waited.Truncate(time.Second).Nanoseconds()), t.awaited())
			}
		case first = <-t.bridge.First():
			seen = true
		case <-t.script.Done:
			t.bridge.LastLook()
			select {
			case first = <-t.bridge.First(): // a short run
				f(outputAtOnce)
				seen = true
			default:
				f(script.All)
				return false, t.nothing(os.Stderr)
			}
		}
	}
	t.begin(&first)
	return true, nil
}

// outputAtOnce is how many bytes of the script's output are shown before it is looked for the first batch again.
const outputAtOnce = 256 << 10

// firstPatience is how long the run waits for the first batch before it says that it
// waits.
const firstPatience = 3 * time.Second

// awaited says what is still to come before the first batch.
func (t *torchRun) awaited() string {
	if _, imported := t.bridge.Heard(); !imported {
		return cmp.Or(t.of, "the command") + " has not imported PyTorch's DataLoader yet"
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
	_ = cli.Say(os.Stderr, "gpustall: the screen opens with the first batch that is loaded for training, or the third step of an optimizer without one\n")
	var output *script.Output
	var tail func() []string // none of a training that another process started
	copies := func(int) {}
	if t.log != nil {
		output = script.OpenOutput(t.log.Name())
		tail, copies = output.Tail, func(most int) { output.Copy(os.Stdout, most) }
	}
	if seen, err := t.wait(copies); !seen {
		return err
	}
	restore := restorer()
	defer cli.RestoreAtPanic(restore)
	if output != nil {
		go output.Follow(t.script.Done)
	}
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
		Experiments: t.recording.tries, Baseline: t.recording.recorder.Baseline, Note: t.recording.recorder.Note, Foresee: t.foresee, Output: tail, Ranks: t.ranked, Lines: true,
		Capture: t.taken.ask, Looks: t.bridge, Rank: t.viewPeer, Apart: t.of != "",
		Export: func() (string, error) {
			return exportReport(t.recording.session, baseName(t.recording.file), t.recording.file)
		},
	})
	if errors.Is(screenErr, tui.ErrInterrupted) || errors.Is(screenErr, context.Canceled) {
		screenErr = nil
	}
	t.script.Finish(os.Stderr)
	err := errors.Join(screenErr, <-ended)
	sum := t.recording.summarise(t.err())
	_ = cli.Say(os.Stderr, "%s", t.noTerminal())
	_ = cli.Say(os.Stdout, "%s%s%s", sum.Text(), keptLine(all(t.recording.session)), t.kept())
	if t.log != nil && !script.IsInMemory(t.log) {
		_ = cli.Say(os.Stdout, "%-*s%s\n", cli.LabelWidth, "output", t.log.Name())
	}
	if cli.Exists(t.recording.file) {
		_ = cli.Say(os.Stdout, "replay   gpustall view %s\n", t.recording.id())
	}
	return err
}

// kept says where the session is; nothing where none could be written. Of a training that was left, it says that it goes on.
func (t *torchRun) kept() (text string) {
	if t.of != "" && bridge.Runs(t.script.PID()) {
		text = fmt.Sprintf("%-*s%s goes on, no longer watched\n", cli.LabelWidth, "training", t.of)
	}
	if t.session == "" && t.folder == "" {
		return text
	}
	kept, _ := t.recording.kept()
	return text + kept
}

// foresee says what may go wrong with changes.
func (t *torchRun) foresee(changes []knob.Setting) (text string, grave bool) {
	return t.bridge.Foresee(changes)
}
