// Package checkpoint keeps runs and weights in safetensors files. A checkpoint is one file,
// which is written as a whole or not at all. It has the weights under PyTorch's names, so
// that other programs can read them. It also has what the optimizer keeps, and as text
// everything else that a run needs to go on.
package checkpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/safetensors"
	"dev.gpustall/loader"
)

// version is the version of the format. Files of a newer one are refused.
const version = 1

// The key of the text in a file's metadata, and the prefix of tensors that are not
// weights.
const (
	aboutKey  = "gpustall"
	optimizer = "optimizer."
)

// Run describes the run that a checkpoint is from.
type Run struct {
	Version int            `json:"version"`
	Session string         `json:"session"`          // its name
	Made    string         `json:"made"`             // by which gpustall
	Model   string         `json:"model"`            // in words
	Chosen  []knob.Setting `json:"chosen,omitempty"` // the settings that chose it: name, stem and the like
	In      string         `json:"input"`            // of the model, in words
	Classes int            `json:"classes"`
	Data    string         `json:"data"` // where it lies; empty for the default set
	Dataset string         `json:"dataset"`
	Seed    int64          `json:"seed"`
	LR      float64        `json:"lr,omitempty"` // as given; 0 is the default
	Epochs  int            `json:"epochs,omitempty"`
	Steps   int            `json:"steps,omitempty"`
	Images  []knob.Setting `json:"images,omitempty"` // what is made of them, if that was said
	Knobs   []knob.Setting `json:"knobs"`            // in force
	At      At             `json:"at"`
	Args    []string       `json:"-"`
}

// At is where the run was.
type At struct {
	Step       int             `json:"step"`
	Micro      int             `json:"micro,omitempty"`
	Accumulate int             `json:"accumulate,omitempty"`
	Drawn      int             `json:"drawn,omitempty"`
	Pace       train.Pace      `json:"pace"`
	Loader     loader.Position `json:"loader"`
}

// Write writes a checkpoint.
func Write(path string, run Run, p *train.Point) error {
	run.Version = version
	run.At = At{Step: p.Step, Micro: p.Micro, Pace: p.Pace, Loader: p.Loader}
	var tensors []safetensors.Tensor
	if p.State != nil {
		run.At.Accumulate, run.At.Drawn = p.State.Accumulate, p.State.Drawn
		tensors = weights(p)
		for _, t := range p.State.Optimizer {
			tensors = append(tensors, safetensors.Tensor{Name: optimizer + t.Name, Shape: t.Shape, Data: t.Data})
		}
	}
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	return safetensors.Write(path, tensors, map[string]string{aboutKey: string(text)})
}

// Save writes only the weights of a run, as PyTorch's state_dict has them.
func Save(path string, p *train.Point) error {
	return safetensors.Write(path, weights(p), map[string]string{"format": "pt"})
}

// weights returns the tensors of the state_dict. load_state_dict asks for the count of
// batches that PyTorch's batch norms keep.
func weights(p *train.Point) (out []safetensors.Tensor) {
	count := int64(p.Step)
	for _, t := range p.State.Weights {
		out = append(out, safetensors.Tensor{Name: t.Name, Shape: t.Shape, Data: t.Data})
		if norm, ok := strings.CutSuffix(t.Name, ".running_var"); ok {
			out = append(out, safetensors.Tensor{Name: norm + counted, Count: &count})
		}
	}
	return out
}

const counted = ".num_batches_tracked"

// Read reads a checkpoint. The model's shapes are checked when a state takes it over.
func Read(path string) (*Run, *train.Point, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, nil, errs.Wrap(err, "resume", path, "")
	}
	defer f.Close()
	run, err := about(path, f)
	if err != nil {
		return nil, nil, err
	}
	p := &train.Point{Step: run.At.Step, Micro: run.At.Micro, Pace: run.At.Pace, Loader: run.At.Loader}
	for _, name := range f.Names() {
		if strings.HasSuffix(name, counted) {
			continue
		}
		v, err := f.Floats(name)
		if err != nil {
			return nil, nil, err
		}
		if p.State == nil {
			p.State = &nn.Saved{Accumulate: run.At.Accumulate, Drawn: run.At.Drawn}
		}
		shape, _ := f.Shape(name)
		t := nn.Tensor{Name: name, Shape: ints(shape), Data: v}
		if own, ok := strings.CutPrefix(name, optimizer); ok {
			t.Name = own
			p.State.Optimizer = append(p.State.Optimizer, t)
			continue
		}
		p.State.Weights = append(p.State.Weights, t)
	}
	return run, p, nil
}

// about reads what a file says of its run.
func about(path string, f *safetensors.File) (*Run, error) {
	text, ok := f.Metadata[aboutKey]
	if !ok {
		return nil, errs.New("resume", path, "it holds weights and no checkpoint", "begin a new run from it with --init "+path)
	}
	var run Run
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		return nil, errs.New("resume", path, "what it says of its run is damaged: "+err.Error(), "resume an earlier checkpoint")
	}
	switch {
	case run.Version > version:
		return nil, errs.New("resume", path, fmt.Sprintf("it is of version %d, and this gpustall knows versions up to %d", run.Version, version), "use the gpustall that made it ("+run.Made+"), or a newer one")
	case run.Version < 1 || run.At.Step < 0 || run.At.Micro < 0:
		return nil, errs.New("resume", path, "what it says of its run is damaged", "resume an earlier checkpoint")
	}
	return &run, nil
}

func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = int(d)
	}
	return out
}

// pattern is the name of a checkpoint: its session's name and the step.
const pattern = "%s-step%09d" + safetensors.Ext

// Path returns the path of the checkpoint of a session's step in a folder.
func Path(dir, session string, step int) string {
	return filepath.Join(dir, fmt.Sprintf(pattern, session, step))
}

// List lists the checkpoints in a folder, the oldest first. They are those of one
// session, or of all if session is empty. Files of one session are ordered by step, and
// files of several by the time of writing.
func List(dir, session string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type found struct {
		path string
		when int64
	}
	var all []found
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), safetensors.Ext)
		at := strings.LastIndex(name, "-step")
		if !ok || at < 0 || e.IsDir() || name[0] == '.' || session != "" && name[:at] != session {
			continue
		}
		st, err := e.Info()
		if err != nil {
			continue // it was deleted meanwhile
		}
		when := st.ModTime().UnixNano()
		if session != "" {
			when = 0
		}
		all = append(all, found{filepath.Join(dir, e.Name()), when})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.when, b.when), strings.Compare(a.path, b.path))
	})
	paths := make([]string, len(all))
	for i := range all {
		paths[i] = all[i].path
	}
	return paths, nil
}
