package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// torchFacts is the PyTorch that is there, if any.
type torchFacts struct {
	Version string `json:"version"`
	CUDA    string `json:"cuda"`
	CuDNN   int    `json:"cudnn"`
	Device  string `json:"device"`
	Usable  bool   `json:"usable"` // torch.cuda.is_available(), or --device cpu
	Why     string `json:"why,omitempty"`
	python  string
}

// torchRun is an answer of torch_peer.py.
type torchRun struct {
	Device  string     `json:"device"` // "cpu": the script was tried, nothing was measured
	Rows    []torchRow `json:"rows"`
	Skipped string     `json:"skipped,omitempty"`
}

// torchRow is one measurement of PyTorch. A row with an error has no numbers.
type torchRow struct {
	Case    string  `json:"case"` // "matmul", "eager", "compile", "end-to-end"
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

// checkTorch looks for a Python with a PyTorch that can use the GPU.
// GPUSTALL_PYTHON names another than python3.
func checkTorch(ctx context.Context, c *check) (any, error) {
	name := os.Getenv("GPUSTALL_PYTHON")
	if name == "" {
		name = "python3"
	}
	python, err := exec.LookPath(name)
	if err != nil {
		return nil, skip("no " + name + " here, so PyTorch is not measured")
	}
	if python, err = filepath.Abs(python); err != nil {
		return nil, err
	}
	c.torch.python = python
	if err := c.object(ctx, &c.torch, python, c.peerArgs("probe")...); err != nil {
		return nil, err
	}
	if !c.torch.Usable {
		return c.torch, skip(c.torch.Why)
	}
	return c.torch, nil
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
	if err := c.object(ctx, &r, c.torch.python, c.peerArgs(mode)...); err != nil {
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

// rows are all of PyTorch's measurements in this run.
func (c *check) torchRows() []torchRow {
	var out []torchRow
	for _, p := range c.report.Parts {
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
