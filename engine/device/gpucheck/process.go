package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"dev.gpustall/engine/device/cuda"
)

// computeCache is where the driver keeps what it compiled, in the check's folder.
const computeCache = "compute-cache"

// programs runs the programs of the bundle that this one belongs to, each in a process of its
// own.
type programs struct {
	self       string // this program
	dir        string
	tmp        string     // for scratch files
	cache      string     // the driver's of its compiled kernels, in tmp; empty: computeCache
	transcript transcript // of the part that runs
}

// exitError is a process that ended with an error, with what it said last.
type exitError struct {
	name string
	code int // -1: killed by a signal
	why  string
}

func (e *exitError) Error() string {
	if e.why == "" {
		return fmt.Sprintf("%s: exit %d and no word", e.name, e.code)
	}
	return fmt.Sprintf("%s: exit %d: %s", e.name, e.code, e.why)
}

// process runs a program of the bundle with its scratch files in the check's own
// folder, and returns its output. When ctx ends, the program and its children
// are killed.
func (p *programs) process(ctx context.Context, program string, args ...string) ([]byte, error) {
	path, err := p.find(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = p.tmp
	cmd.Env = append(os.Environ(),
		"GPUSTALL_TEST_CUDA=1", // to the test binaries: a driver must be there
		// The driver keeps what it compiled here, for all parts, whatever the home
		// folder is like.
		"CUDA_CACHE_PATH="+filepath.Join(p.tmp, cmp.Or(p.cache, computeCache)), "CUDA_CACHE_DISABLE=0",
		"CUDA_LAUNCH_BLOCKING=0", // its other value makes every launch wait
		"XDG_CACHE_HOME="+filepath.Join(p.tmp, "cache"), "XDG_STATE_HOME="+filepath.Join(p.tmp, "state"),
		"TORCHINDUCTOR_CACHE_DIR="+filepath.Join(p.tmp, "inductor"), "TRITON_CACHE_DIR="+filepath.Join(p.tmp, "triton"))
	ownGroup(cmd)
	cmd.WaitDelay = 5 * time.Second // for pipes that a grandchild holds
	var out bytes.Buffer
	var said cuda.LastWords
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	name := filepath.Base(program)
	p.transcript.add(name, args, out.Bytes(), said.Bytes(), err)
	var x *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out.Bytes(), fmt.Errorf("%s: stopped: %w; it had said: %s", name, context.Cause(ctx), said.Last())
	case errors.As(err, &x):
		why := said.Last()
		if x.ExitCode() < 0 {
			why = x.String() + ": " + why
		}
		return out.Bytes(), &exitError{name, x.ExitCode(), why}
	case err != nil:
		return out.Bytes(), fmt.Errorf("%s: %w", name, err)
	}
	return out.Bytes(), nil
}

// find returns the path of a program: an absolute path, or one of the bundle, which may be packed
// with gzip.
func (p *programs) find(program string) (string, error) {
	path := program
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, program)
	}
	if exists(path) {
		return path, nil
	}
	unpacked := filepath.Join(p.tmp, program) // a name without a folder
	if exists(unpacked) {
		return unpacked, nil
	}
	packed, err := os.Open(path + ".gz")
	if err != nil {
		return "", skip(fmt.Sprintf("the bundle has no %s", filepath.Base(program)))
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err == nil {
		err = unpack(unpacked, z)
	}
	if err != nil {
		return "", fmt.Errorf("unpack %s.gz: %w", path, err)
	}
	return unpacked, nil
}

// unpack writes a program in one step, so that half of one is never left behind.
func unpack(path string, r io.Reader) error {
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// object runs a program whose last line of output is a JSON object, and decodes
// it into v, also when the program then fails or is cut off.
func (p *programs) object(ctx context.Context, v any, program string, args ...string) error {
	out, err := p.process(ctx, program, args...)
	last := lastLine(out)
	if err != nil {
		if len(last) > 0 {
			_ = json.Unmarshal(last, v) // the error is what matters
		}
		return err
	}
	if err := json.Unmarshal(last, v); err != nil {
		return fmt.Errorf("%s: decode its answer: %w", filepath.Base(program), err)
	}
	return nil
}

// lastLine returns the last complete line.
func lastLine(out []byte) []byte {
	i := bytes.LastIndexByte(out, '\n')
	if i < 0 {
		return nil
	}
	return out[bytes.LastIndexByte(out[:i], '\n')+1 : i]
}

// piece runs one of this program's own measurements in a new process.
func (p *programs) piece(ctx context.Context, v any, name string, args ...string) error {
	return p.object(ctx, v, p.self, append([]string{"-piece", name}, args...)...)
}
