//go:build linux

package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/mask"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/torch/frames"
	"dev.gpustall/engine/trace"
)

// message is a line of a process's messages, which tell what happens rarely.
type message struct {
	Type string `json:"type"`
	from int    // the process id
	T    int64  `json:"t"` // ns of CLOCK_MONOTONIC; of the session, once the message is read

	Hello
	Loader
	Step    int32 `json:"step"`
	Through int64 `json:"through"` // samples of the process's steps so far
	Script  bool  `json:"script"`  // the script itself made the change
	Batch
	Captured
	Refused
	Exchange
	Trial   uint64         `json:"trial"`   // of workers, whose end is told
	Layout  *frames.Layout `json:"layout"`  // of the process's frames; nil where Reason says why not
	Library []string       `json:"library"` // where there is no layout: folders whose code is not the user's
	Fresh   []frames.Frame `json:"fresh"`   // frames that are new in Stack
	Stack   []int          `json:"stack"`   // the numbers of a stack's frames, innermost first
	Level   string         `json:"level"`
	Text    string         `json:"text"`
	Said    bool           `json:"said"` // the script's standard error has it
}

// mask takes secrets out of what the script, its errors or its data set may have said.
func (m *message) mask() {
	for _, text := range []*string{&m.Text, &m.Reason, &m.Hint, &m.Why, &m.Error} {
		*text = mask.Text(*text)
	}
	for i := range m.Arguments {
		m.Arguments[i] = mask.Text(m.Arguments[i])
	}
}

// Exchange is what DistributedDataParallel says of a backward pass, as it measures one in some: ns.
type Exchange struct {
	Compute int64 `json:"compute"` // until the last gradient
	Exposed int64 `json:"exposed"` // from then until all ranks' gradients are added up
}

// Hello describes a process that loads batches.
type Hello struct {
	PID     int      `json:"pid"`
	Rank    int      `json:"rank"`  // -1 where it is alone
	World   int      `json:"world"` // the number of ranks; -1 where it is alone
	Local   int      `json:"local"` // its rank among the ranks on this machine; -1 where that is not known
	Here    int      `json:"here"`  // the number of ranks on this machine; -1 where that is not known
	Job     string   `json:"job"`   // as the launcher calls it; empty where none does
	Store   string   `json:"store"` // the address of the TCPStore that its ranks share; empty where they share none
	Torch   string   `json:"torch"`
	Python  string   `json:"python"`
	Argv    []string `json:"argv"`
	Threads int      `json:"threads"`
	Policy  string   `json:"wait_policy"` // OMP_WAIT_POLICY; empty where it is not set
	CUDA    string   `json:"cuda"`        // the GPU's name; empty without one
	UUID    string   `json:"uuid"`        // the GPU's, 8-4-4-4-12 hexadecimal digits; empty where PyTorch does not tell
	Stand   bool     `json:"stand_in"`    // the GPU is a test's stand-in
	Other   string   `json:"other"`       // an accelerator that is not watched: its kind, or its name if it was watched before; empty without one
}

// Answer is what a rank says to changes that all ranks of its job are to make at one step.
type Answer struct {
	Rank  int            `json:"rank"`
	Step  int32          `json:"step"`  // that it has come to, about
	Every int64          `json:"every"` // ns from step to step
	tried uint64         // the last trial of workers that it answered
	Ready bool           `json:"ready"` // it is known whether its workers can begin
	Most  int            `json:"most"`  // how many can; -1: no limit is known
	Why   string         `json:"why"`   // ... and why not more
	Knobs []knob.Setting `json:"knobs"` // in force, and ...
	Since int32          `json:"since"` // ... the step since which they are
}

// AtLeast reports whether a version of PyTorch, "2.15.0+cu132", is this one or a later one.
func AtLeast(version string, major, minor int) bool {
	var a, b int
	_, err := fmt.Sscanf(version, "%d.%d", &a, &b)
	return err == nil && (a > major || a == major && b >= minor)
}

// Device returns what the script computes on.
func (h *Hello) Device() trace.Device {
	if h.CUDA != "" {
		return trace.Device{Name: h.CUDA, Kind: "cuda"}
	}
	name := "cpu (the script's own, " + units.Counted(h.Threads, "thread", "threads") + ")"
	if h.Other != "" {
		name += ", " + h.Other + " not watched"
	}
	return trace.Device{Name: name, Kind: "cpu"}
}

// take takes over the GPU of o, or that the GPU is no longer watched.
func (h *Hello) take(o *Hello) { h.CUDA, h.UUID, h.Other = o.CUDA, o.UUID, o.Other }

// Batch says what a batch needs on its way from a worker to the loop.
type Batch struct {
	Tensors int64  `json:"tensors"`
	Bytes   int64  `json:"bytes"`
	Files   int64  `json:"files"` // how many the process may open; -1: any number
	Sharing string `json:"sharing"`
	OnGPU   int64  `json:"on_gpu"` // how many of the tensors the data set or collate_fn made on a GPU
}

// Captured is the result of a capture.
type Captured struct {
	Path  string `json:"path"` // the trace, in the folder of rings
	Steps int    `json:"steps"`
	Error string `json:"error"` // why there is no trace; empty where there is one
}

// Refused says why workers could not begin, and what would help.
type Refused struct {
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

// Loader is what is known of a DataLoader.
type Loader struct {
	Trains     bool           `json:"trains"`
	Dataset    string         `json:"dataset"`
	Style      string         `json:"kind"` // map or iterable; optimizer: there is no loader, and the loop's steps are those of its optimizer
	Samples    int64          `json:"samples"`
	BatchSize  int            `json:"batch_size"`
	Knobs      map[string]int `json:"knobs"`
	Live       bool           `json:"live"`  // its knobs change at the next batch, otherwise at the next epoch
	Why        string         `json:"why"`   // why its knobs cannot be changed at all; empty where they can
	Apart      bool           `json:"apart"` // its class makes PyTorch's iterators in its own way
	HasInOrder bool           `json:"has_in_order"`
	Unbatched  bool           `json:"unbatched"` // batch_size=None: what the data set yields counts as one sample
	DropLast   bool           `json:"drop_last"`
	Shuffle    *bool          `json:"shuffle"`   // nil where the sampler does not tell
	Arguments  []string       `json:"arguments"` // the arguments that are not knobs, as the script writes them
	Context    string         `json:"context"`   // how its workers begin: fork, spawn, forkserver
	Sent       int64          `json:"sent"`      // bytes that are pickled and sent to each worker as it begins; 0 where they are few or not known
	Alone      bool           `json:"alone"`     // there is no loader, and nothing tells what the loop waits for
	Whole      bool           `json:"whole"`     // each worker yields all of an iterable data set, which does not ask for its worker
	Anew       bool           `json:"-"`         // the script makes a new loader in each epoch
}

// When says when changes apply; empty where they apply at the next batch.
func (l *Loader) When() string {
	switch {
	case l.Why != "":
		return "the DataLoader cannot be changed while it runs: " + l.Why
	case l.Live:
		return ""
	case l.Apart:
		return "changes apply at the next epoch: the loader makes its iterators itself"
	case l.Style == "map":
		return "changes apply at the next epoch: the data set is a data pipe"
	}
	return "changes apply at the next epoch: the data set is iterable"
}

// mail is the file of one process's messages.
type mail struct {
	path string
	pid  int
	file *os.File
	rest []byte // the beginning of a line that is not complete

	buffer [1 << 10]byte
}

func openMail(path string, pid int) (*mail, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &mail{path: path, pid: pid, file: f}, nil
}

// read returns the new messages. It skips lines that are not messages.
func (m *mail) read() (out []message) {
	n, err := m.file.Read(m.buffer[:])
	for ; n > 0 && err == nil; n, err = m.file.Read(m.buffer[:]) {
		m.rest = append(m.rest, m.buffer[:n]...)
	}
	if len(m.rest) == 0 {
		return nil
	}
	for {
		line, rest, ok := bytes.Cut(m.rest, []byte("\n"))
		if !ok {
			return out
		}
		m.rest = rest
		var msg message
		if json.Unmarshal(line, &msg) == nil {
			msg.mask()
			out = append(out, msg)
		}
	}
}
