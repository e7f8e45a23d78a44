package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// torchFacts describes the PyTorch of the machine, if it has one.
type torchFacts struct {
	Version string `json:"version"`
	CUDA    string `json:"cuda"`
	CuDNN   int    `json:"cudnn"`
	Device  string `json:"device"`
	Usable  bool   `json:"usable"` // torch.cuda.is_available(), or --device cpu
	Why     string `json:"why,omitempty"`
	Python  string `json:"python,omitempty"`
}

// torchRun is an answer of torch_peer.py.
type torchRun struct {
	Device  string     `json:"device"` // "cpu": the script was tried, nothing was measured
	Rows    []torchRow `json:"rows"`
	Skipped string     `json:"skipped,omitempty"`
}

// torchRow is one measurement of PyTorch. A row with an error has no numbers.
type torchRow struct {
	Case    string  `json:"case"` // "matmul", "end-to-end" or one of torchTrains
	Type    string  `json:"type"`
	Batch   int     `json:"batch,omitempty"`
	Size    int     `json:"size,omitempty"` // of a square matrix
	Workers int     `json:"workers,omitempty"`
	Steps   int     `json:"steps,omitempty"`
	StepMS  float64 `json:"step_ms,omitempty"`
	Samples float64 `json:"samples_per_s,omitempty"`
	TFLOPs  float64 `json:"tflops,omitempty"`
	Peak    int64   `json:"peak_memory_bytes,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// torchTrains are the ways in which PyTorch trains on a batch on the GPU.
var torchTrains = []string{"eager", "compile", "reduce-overhead"}

// checkTorch looks for a Python with a PyTorch that can use the GPU. Of those that
// cannot, the first with any PyTorch tells why.
func checkTorch(ctx context.Context, c *check) (any, error) {
	found := pythons()
	if len(found) == 0 {
		return nil, skip("no python3 here, so PyTorch is not measured; GPUSTALL_PYTHON names one elsewhere")
	}
	var failed error
	for _, python := range found {
		var f torchFacts
		if err := c.object(ctx, &f, python, c.peerArgs("probe")...); err != nil {
			failed = err
			continue
		}
		f.Python = python
		if c.torch.Python == "" || f.Usable || c.torch.Version == "" && f.Version != "" {
			c.torch = f
		}
		if f.Usable {
			return c.torch, nil
		}
	}
	if c.torch.Python == "" {
		return nil, skip("no Python here answers: " + failed.Error())
	}
	return c.torch, skip(c.torch.Why)
}

// pythons returns the interpreters to ask: GPUSTALL_PYTHON alone, or those that are
// usual, since the python3 of the path is often not the one with PyTorch.
func pythons() []string {
	if name := os.Getenv("GPUSTALL_PYTHON"); name != "" {
		return existing(name)
	}
	names := []string{"python3", "python"}
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := os.Getenv(v); dir != "" {
			names = append(names, filepath.Join(dir, "bin", "python"))
		}
	}
	places := []string{"/opt/conda/bin/python", "/opt/*/bin/python3", "/venv/*/bin/python", "/workspace/*/bin/python", "/usr/local/bin/python3", "/usr/bin/python3"}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, "*conda*/bin/python"), filepath.Join(home, "*venv*/bin/python"))
	}
	for _, pattern := range places {
		more, _ := filepath.Glob(pattern) // the patterns are well formed
		names = append(names, more...)
	}
	return existing(names...)
}

// existing returns the paths of the programs that exist, once each. It follows no links, because a
// virtual environment is found by its path.
func existing(names ...string) []string {
	const most = 8
	var out []string
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err == nil && !slices.Contains(out, path) && len(out) < most {
			out = append(out, path)
		}
	}
	return out
}

func (c *check) peerArgs(mode string) []string {
	args := []string{filepath.Join(c.dir, "torch_peer.py"), "--mode", mode, "--workers", c.workers()}
	if c.quick {
		args = append(args, "--quick")
	}
	if c.facts.Emulated {
		args = append(args, "--device", "cpu")
	}
	return args
}

// torchRun measures PyTorch in a process of its own.
func (c *check) torchRun(ctx context.Context, mode string) (any, error) {
	if !c.torch.Usable {
		return nil, skip("no PyTorch that can use the GPU; see the part torch")
	}
	var r torchRun
	if err := c.object(ctx, &r, c.torch.Python, c.peerArgs(mode)...); err != nil {
		if len(r.Rows) > 0 { // what it said before counts
			return r, err
		}
		return nil, err
	}
	if r.Skipped != "" {
		return nil, skip(r.Skipped)
	}
	var errs []error
	for _, row := range r.Rows {
		if row.Error != "" {
			errs = append(errs, errors.New(row.Case+" "+row.Type+": "+row.Error))
		}
	}
	return r, errors.Join(errs...)
}

// torchRows returns all of PyTorch's measurements in this run.
func (f *findings) torchRows() []torchRow {
	var out []torchRow
	for _, p := range f.report.Parts {
		if r, ok := p.Value.(torchRun); ok {
			out = append(out, r.Rows...)
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
