package trace

import (
	"math"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/base/knob"
)

// Step is the account of one training step, which is kept for ever. Its window reaches from the end
// of the previous step's compute to the end of its own. So the windows tile the run, and Busy + all
// of Stall = End - Start exactly.
type Step struct {
	Index   int32 // from 0 over the session
	Epoch   int32 // from 0
	Segment int32 // index into Session.Segments
	Batch   int32 // batch sequence number
	Samples int32
	Correct int32   // top-1 hits; -1 where the device does no arithmetic
	Loss    float32 // mean over the batch; NaN where the device does no arithmetic
	Flags   uint16

	Start, End int64            // ns
	Busy       int64            // ns of compute in the window
	Wait       int64            // ns the step loop was blocked in Loader.Next (data wait)
	Load       int64            // ns of worker time that built the batch (data loading time)
	Copy       int64            // ns of host-to-device copy
	Bytes      int64            // bytes copied to the device
	Through    int64            // samples of the run up to its end, also of steps without a record; 0 where nobody counts them
	Stall      [NumCauses]int64 // ns
	Work       Work             // what the worker did in its time on the batch; zero where that was not measured
	Built      Built            // who built the batch, and the piece of it that took longest
}

// Diverged reports whether the step's loss is infinite or not a number. A step without arithmetic
// has no loss, and is not diverged.
func (s *Step) Diverged() bool {
	l := float64(s.Loss)
	return s.Correct >= 0 && (math.IsNaN(l) || math.IsInf(l, 0))
}

// Begins returns which of the steps is the one that the training begins with; -1 where none is.
func Begins(steps []Step) int {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Flags&FlagBegins != 0 {
			return i
		}
	}
	return -1
}

// Segment is an interval with constant knobs.
type Segment struct {
	Index     int32
	Start     int64 // ns, when the knobs took effect
	End       int64 // ns; 0 while it is open
	FirstStep int32
	Knobs     []knob.Setting
	Reason    string // "start", or the change in words: "num_workers 2 -> 4"
	ByScript  bool   // the watched script began it: it made another loader, went on to another one, or began to use a GPU

	// The measured cost of entering the segment.
	TransitionSteps int32 // steps from the change until the queue was refilled, excluded from comparisons
	Transition      int64 // ns of compute idle in those steps

	Predicted Prediction // what was expected of the knobs when they were asked for
}

// ByScript ends Segment.Reason where Segment.ByScript holds. Older files have no column for that
// and tell it by these words alone.
const ByScript = ", by the script itself"

// Baseline is the choice of segment A, which the others are compared with. The zero value chooses
// the first segment, as every session does when it begins.
type Baseline struct {
	Segment int32 // its Index; where there is none such, the first segment is A
	T       int64 // ns, when it was chosen
}

// Meta describes the run. A file stores all of it.
type Meta struct {
	ID         string    // also the file's base name
	Version    string    // of gpustall
	Started    time.Time // wall-clock time of nanosecond 0
	Command    []string
	Device     string // "NVIDIA H100 80GB HBM3", "cpu (AMD EPYC, 2 threads)", "emulated H100"
	DeviceKind string // "cpu", "cuda", "emu"
	Emulated   bool   // the device's times are modelled or an emulated driver's, and say nothing of a real device
	Model      string
	Form       string `json:",omitempty"` // of the model, in words, where there are several
	Params     int64  // trainable parameters; 0 when there is no model
	Dataset    string
	Format     string // "cifar10-binary", "imagefolder", …
	Contents   string `json:",omitempty"` // of its files, where the format alone does not say: "images in 12 shards"
	Synthetic  bool   // the data is made by gpustall
	Samples    int64  // in one epoch, before drop_last
	Classes    int
	Seed       int64
	Host       []knob.Setting // environment as name/value pairs: os, cpu, cores, memory, go, driver …
	Specs      []knob.Spec
	Imported   string             // the file a foreign trace came from; empty for our own runs
	Profile    *Profile           `json:",omitempty"` // what that trace tells besides; nil for our own runs
	Peaks      map[string]float64 `json:",omitempty"` // the device's peak FLOP/s by type, as its maker states it; none where that is not known
	PeakFrom   string             `json:",omitempty"` // who states it
	Cached     *Cached            `json:",omitempty"` // what the page cache held of the data when the run began; nil where that is not known
	GPURate    float64            `json:",omitempty"` // what an hour of the device costs, in dollars; 0 where nobody said

	Checkpoints string   `json:",omitempty"` // the folder that the run is kept in; empty when it is not
	Resumed     *Resumed `json:",omitempty"` // nil for a run that began anew
}

// Device is what computes, as a session's description names it.
type Device struct {
	Name string // Meta.Device
	Kind string // Meta.DeviceKind
}

// Taken is what a loop takes its batches from, as a session's description names it.
type Taken struct {
	Dataset, Format string
	Samples         int64
	Host            []knob.Setting
}

// Watched reports whether the run is the user's own training in PyTorch, watched live.
func (m *Meta) Watched() bool { return knob.ValueOf(m.Host, "torch") != "" }

// Names of facts of a host on which a training in PyTorch is watched.
const (
	TorchThreads    = "torch threads"     // that one operation computes on
	TorchWaitPolicy = "torch wait policy" // OMP_WAIT_POLICY, where it is set
)

// Names of facts about a process of a distributed training.
const (
	JobName  = "job"        // as its launcher calls it
	JobNode  = "node"       // the name of the machine
	JobRank  = "rank"       // which the session is about
	JobRanks = "ranks"      // of the job
	JobHere  = "ranks here" // on this machine
)

// Spins reports whether the device's threads keep a core busy while they wait for each other.
// PyTorch computes on the host with OpenMP, whose threads do, unless they are told to sleep. When
// one of them has no core, the others spin, and their time on a core is then no measure of what
// they compute.
//
// Measured with PyTorch 2.15.0 and its libgomp, ResNet-18 with 2 threads on 2 cores: a sample takes
// 15 to 18 ms of a core. Beside one process that computes it takes 177 to 195 ms, 87 % of that in
// libgomp; with OMP_WAIT_POLICY=PASSIVE it takes 14 ms there.
func (m *Meta) Spins() bool {
	n, _ := strconv.Atoi(knob.ValueOf(m.Host, TorchThreads))
	return m.DeviceKind == "cpu" && n > 1 && !strings.EqualFold(knob.ValueOf(m.Host, TorchWaitPolicy), "passive")
}

// Learns reports whether the session tells the loss of the training. An imported or watched one
// does not.
func (m *Meta) Learns() bool { return m.Imported == "" && !m.Watched() }

// Resumed says where a resumed run began.
type Resumed struct {
	From      string // the checkpoint
	Session   string // the name of the run that made it
	Step      int32  // steps before
	Epoch     int32  // that it began in, from 0 ...
	Delivered int64  // ... and the samples of it before
}

// NotApplied stands in a note about a change that the engine could not make. Before it are the
// words of Segment.Reason, and after it is why.
const NotApplied = " not applied: "

// HeldBack stands in a note about a change that a rank cannot make, and so none makes.
const HeldBack = " is held back"

// Note is a line of the session's log: a knob confirmed, a warning, the end.
type Note struct {
	T     int64
	Level string // "info", "warn", "error", or LevelSkipped
	Text  string
}

// LevelSkipped is the level of a note that names a sample that was left out of its batch.
const LevelSkipped = "skipped"

// Point is one sample of a gauge.
type Point struct {
	T int64
	V float64
}

// Outcome is how the run ended.
type Outcome struct {
	Ended     int64  // ns; 0 while running
	Status    string // "running", "finished", "stopped", "failed", "killed"
	Error     string
	PeakBytes int64  // device memory
	Planned   Memory // the most that was planned for

	HostPeak    int64 // resident memory of the process, in bytes; 0 where it is not known
	HostPlanned HostMemory

	Skipped int64 `json:",omitempty"` // samples that were left out of their batches

	Drops   [NumTracks]int64
	Unsaved Unsaved
}

// Unsaved is what the session's file lacks because it could not be written, for example to a full
// disk. The screen showed all of it during the run.
type Unsaved struct {
	Steps, Spans int64
	From, To     int64 // ns, the time that they are of
}

// Dropped returns how many spans were dropped on all tracks.
func (o *Outcome) Dropped() (n int64) {
	for _, d := range o.Drops {
		n += d
	}
	return n
}

// Any reports whether anything is missing.
func (u Unsaved) Any() bool { return u.Steps > 0 || u.Spans > 0 }

// add counts rows as missing.
func (u *Unsaved) add(steps []Step, spans []Span) {
	if len(steps)+len(spans) == 0 {
		return
	}
	if !u.Any() {
		u.From, u.To = math.MaxInt64, math.MinInt64
	}
	u.Steps += int64(len(steps))
	u.Spans += int64(len(spans))
	for i := range steps {
		u.From, u.To = min(u.From, steps[i].Start), max(u.To, steps[i].End)
	}
	for i := range spans {
		u.From, u.To = min(u.From, spans[i].Start), max(u.To, spans[i].End)
	}
}

// Prediction is what was expected of a segment's knobs before they took effect. The zero value is
// none.
type Prediction struct {
	Base   float64 // samples/s, measured in the steps that the prediction is made from
	Rate   float64 // samples/s
	Lo, Hi float64 // the interval of Rate

	Data           float64 // share of the time in which the device waits for data, 0 to 1
	DataLo, DataHi float64

	Others float64 // share of the cores that other processes take, 0 to 1; 0 where that is too little to matter, or not known
}

// Made reports whether there is a prediction.
func (p *Prediction) Made() bool { return p.Rate > 0 && p.Base > 0 }

// Injects reports whether the segment's knobs ask for an injected bottleneck.
func (g *Segment) Injects() bool {
	for _, k := range g.Knobs {
		if k.IsInject() && !knob.Off(k.Value) {
			return true
		}
	}
	return false
}
