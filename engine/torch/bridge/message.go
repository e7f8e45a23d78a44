package bridge

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
)

// message is one line of what a process tells that is rare.
type message struct {
	Type string `json:"type"`
	from int    // the process
	T    int64  `json:"t"` // ns of CLOCK_MONOTONIC

	Hello
	Loader
	Changed  map[string]int `json:"changed"`
	Step     int32          `json:"step"`
	InFlight int            `json:"in_flight"`
	Level    string         `json:"level"`
	Text     string         `json:"text"`
}

// Hello is who a process is that loads batches.
type Hello struct {
	PID     int      `json:"pid"`
	Rank    int      `json:"rank"`  // -1 where it is alone
	World   int      `json:"world"` // likewise
	Torch   string   `json:"torch"`
	Python  string   `json:"python"`
	Argv    []string `json:"argv"`
	Threads int      `json:"threads"`
	CUDA    string   `json:"cuda"` // the GPU's name; empty without one
	Stand   bool     `json:"stand_in"`
}

// Loader is what is known of a DataLoader.
type Loader struct {
	Trains     bool           `json:"trains"`
	Dataset    string         `json:"dataset"`
	Style      string         `json:"kind"` // map or iterable
	Samples    int64          `json:"samples"`
	BatchSize  int            `json:"batch_size"`
	Knobs      map[string]int `json:"knobs"`
	Live       bool           `json:"live"`
	Why        string         `json:"why"` // it is not
	HasInOrder bool           `json:"has_in_order"`
	DropLast   bool           `json:"drop_last"`
	Context    string         `json:"context"`
}

// mail is the file of one process's messages.
type mail struct {
	path string
	pid  int
	file *os.File
	rest []byte // of a line that is not complete
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
	b, err := io.ReadAll(m.file)
	if err != nil || len(b) == 0 {
		return nil
	}
	m.rest = append(m.rest, b...)
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
