//go:build linux

package command

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/machine"
	"dev.gpustall/engine/command/metrics"
	"dev.gpustall/engine/command/script"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

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

// launchers are the modules that start a script, whose name comes later.
var launchers = []string{"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"}

// scriptName returns the name of what a command runs: train for "python -u train.py --lr 1".
func scriptName(args []string) string {
	name := filepath.Base(args[0])
	for i, a := range args {
		if strings.HasSuffix(a, ".py") {
			name = strings.TrimSuffix(filepath.Base(a), ".py")
			break
		}
		if a == "-m" && i+1 < len(args) && !slices.Contains(launchers, args[i+1]) {
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
	t.bridge.Began = func(now bridge.Start) {
		m := t.meta(&now)
		r.recorder.Taken(trace.Taken{Dataset: m.Dataset, Format: m.Format, Samples: m.Samples, Host: m.Host})
	}
	t.bridge.Record(r.recorder)
	r.collector.Start()
	training := watch.Training{Root: t.script.PID(), Main: t.bridge.Main, GPU: t.bridge.GPU, Did: t.bridge.Did}
	r.gauges = watch.StartTrainingGauges(r.recorder, training, t.gauged)
	r.watch(t.bridge.Control, func([]knob.Setting) (int64, string) { return 0, "" })
	r.export(metricsOfRank(t.metrics))
	if h := &first.Hello; h.World >= 1 { // after an elastic restart, there may be others
		main := func() bridge.Hello {
			h := t.bridge.Main()
			if t.how.ranks != rankScopes[0] || !bridge.AtLeast(h.Torch, 2, 4) && !watch.InFiles(h.Store) {
				h.Store = ""
			}
			return h
		}
		address := main().Store
		t.follows = address != "" && h.Rank > 0
		r.fleet = watch.StartFleet(r.recorder, watch.Job{Store: address, Late: func() bridge.Late { return bridge.LateOf(t.bridge) }, OnEnd: func(wake func()) { bridge.OnEnd(t.bridge, wake) },
			Name: h.Job, Rank: max(0, h.Rank), World: h.World, Here: h.Here, Node: node(), File: r.file, Main: main, Session: r.session, Ranks: ownRanks{t.bridge.Control, t.bridge}})
	}
	t.limit.begin(t)
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
	}
	if l.ByOptimizer() && l.BatchSize == 0 {
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

// ownRanks are the ranks of this machine, as a job's gpustalls change their knobs.
type ownRanks struct {
	*bridge.Control
	of *bridge.Bridge
}

// Answers returns what each rank says to a change.
func (r ownRanks) Answers() []bridge.Answer { return r.of.Answers() }

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
// has the rank's number before its extension. No name stays none.
func sessionOfRank(path string) string {
	rank := startedFor()
	if rank == "" || path == "" {
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
