package bridge

import (
	"bytes"
	"encoding/json"
	"os"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// message is one line of what a process tells that is rare.
type message struct {
	Type string `json:"type"`
	from int    // the process
	T    int64  `json:"t"` // ns of CLOCK_MONOTONIC

	Hello
	Loader
	Step   int32 `json:"step"`
	Script bool  `json:"script"` // what is applied the script changed, not who watches it
	Batch
	Captured
	Refused
	Level string `json:"level"`
	Text  string `json:"text"`
}

// Hello is who a process is that loads batches.
type Hello struct {
	PID     int      `json:"pid"`
	Rank    int      `json:"rank"`  // -1 where it is alone
	World   int      `json:"world"` // likewise
	Local   int      `json:"local"` // rank among those on this machine; -1 where nobody said
	Here    int      `json:"here"`  // how many those are; likewise
	Torch   string   `json:"torch"`
	Python  string   `json:"python"`
	Argv    []string `json:"argv"`
	Threads int      `json:"threads"`
	Policy  string   `json:"wait_policy"` // OMP_WAIT_POLICY; empty where it is not set
	CUDA    string   `json:"cuda"`        // the GPU's name; empty without one
	UUID    string   `json:"uuid"`        // of the GPU, as NVML has it; empty where PyTorch does not tell
	Stand   bool     `json:"stand_in"`    // the GPU is a test's, its time is made up
	Other   string   `json:"other"`       // the kind of an accelerator that is no GPU of CUDA's; empty without one
}

// Device is what the script computes on.
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

// take takes the GPU of another one.
func (h *Hello) take(o *Hello) { h.CUDA, h.UUID = o.CUDA, o.UUID }

// Batch is what a batch takes on its way from a worker.
type Batch struct {
	Tensors int64  `json:"tensors"`
	Bytes   int64  `json:"bytes"`
	Files   int64  `json:"files"` // that the process may open; -1: any number
	Sharing string `json:"sharing"`
	OnGPU   int64  `json:"on_gpu"` // of the tensors: those that the data set or collate_fn made there
}

// Captured is what came of a capture.
type Captured struct {
	Path  string `json:"path"` // of the trace, in the folder of rings
	Steps int    `json:"steps"`
	Error string `json:"error"` // why there is none; empty where there is
}

// Refused is why workers could not begin, and what would let them.
type Refused struct {
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

// Loader is what is known of a DataLoader.
type Loader struct {
	Trains     bool           `json:"trains"`
	Dataset    string         `json:"dataset"`
	Style      string         `json:"kind"` // map or iterable
	Samples    int64          `json:"samples"`
	BatchSize  int            `json:"batch_size"`
	Knobs      map[string]int `json:"knobs"`
	Live       bool           `json:"live"`  // its knobs change at the next batch, otherwise at the next epoch
	Why        string         `json:"why"`   // they cannot be changed at all
	Apart      bool           `json:"apart"` // its class comes to PyTorch's iterators in a way of its own
	HasInOrder bool           `json:"has_in_order"`
	Unbatched  bool           `json:"unbatched"` // batch_size=None: what the data set yields counts as one sample
	DropLast   bool           `json:"drop_last"`
	Shuffle    *bool          `json:"shuffle"`   // nil where the samples are drawn by what tells nothing of it
	Arguments  []string       `json:"arguments"` // those that are no knobs, as they are written
	Context    string         `json:"context"`   // how its workers begin: fork, spawn, forkserver
	Whole      bool           `json:"whole"`     // each worker yields all of an iterable data set, as nothing asks which worker it is
	Anew       bool           `json:"-"`         // the script makes another one in each epoch
}

// When says when changes apply where that is not at the next batch; empty where it is.
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
	rest []byte // of a line that is not complete

	buffer [1 << 10]byte
}

func openMail(path string, pid int) (*mail, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &mail{path: path, pid: pid, file: f}, nil
}

// read returns the messages that are new. What is none is left out.
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
			out = append(out, msg)
		}
	}
}
