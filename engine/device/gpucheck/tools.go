package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// tool returns the path of one of NVIDIA's tools, where the toolkit or a package of its own
// has put it.
func tool(name string, places ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, pattern := range places {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", skip(fmt.Sprintf("there is no %s here; it comes with the CUDA toolkit", name))
}

// profiled kernels are the six kinds that take most of a step, as parts of their names.
var profiledKernels = []string{"^conv_forward", "^conv_backward_data", "^conv_backward_weight", "^batchnorm_apply", "^batchnorm_grad_sums", "^sum_parts"}

// mostCSV bounds what is kept of a profile.
const mostCSV = 64 << 10

// ncu profiles one launch of each of six kernels, as they run in a training step.
func (c *check) ncu(ctx context.Context) (any, error) {
	path, err := tool("ncu", "/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
	if err != nil {
		return nil, err
	}
	s := c.trainSpec("bf16")
	s.Steps, s.Rates, s.CPU = 1, nil, 0
	arg, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	out := map[string]string{} // CSV by kernel
	for _, kernel := range profiledKernels {
		text, err := c.process(ctx, path, "--csv", "--page", "raw", "--section", "SpeedOfLight", "--section", "Occupancy", "--section", "LaunchStats",
			"--kernel-name", "regex:"+kernel, "--launch-count", "1", c.self, "-piece", "train", string(arg))
		if strings.Contains(string(text), "ERR_NVGPUCTRPERM") || err != nil && strings.Contains(err.Error(), "ERR_NVGPUCTRPERM") {
			return out, skip("the driver lets nobody but root read performance counters here (ERR_NVGPUCTRPERM)")
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", kernel, err)
		}
		out[kernel] = string(text[:min(len(text), mostCSV)])
	}
	return out, nil
}

// sanitizerFound is the exit status of a run in which compute-sanitizer found errors.
const sanitizerFound = "86"

// sanitized is the test of package cuda that runs under memcheck.
const sanitized = "TestCaptureFresh"

// sanitizer runs a whole small training step, in fp32 and bf16, under memcheck.
func (c *check) sanitizer(ctx context.Context) (any, error) {
	path, err := tool("compute-sanitizer", "/usr/local/cuda*/bin/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer/compute-sanitizer")
	if err != nil {
		return nil, err
	}
	binary, err := c.find("cuda.test")
	if err != nil {
		return nil, err
	}
	text, err := c.process(ctx, path, "--tool", "memcheck", "--error-exitcode", sanitizerFound, binary, "-test.v", "-test.run=^"+sanitized+"$")
	text = text[max(0, len(text)-mostCSV):]
	var x *exitError
	if errors.As(err, &x) && fmt.Sprint(x.code) == sanitizerFound {
		return string(text), errors.New("memcheck found errors; the log has them")
	}
	if err == nil && !bytes.Contains(text, []byte("--- PASS: "+sanitized)) {
		err = skip("the test " + sanitized + " did not run under compute-sanitizer")
	}
	return string(text), err
}
