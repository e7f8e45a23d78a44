package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
)

// Statuses of a part.
const (
	statusOK      = "ok"
	statusFailed  = "failed"
	statusSkipped = "skipped"
)

// part is one thing to check. Its run returns what it found, which goes into the
// JSON also when there is an error.
type part struct {
	name  string
	limit time.Duration
	run   func(ctx context.Context, c *check) (any, error)
}

// result is a part's outcome.
type result struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
	Log     string  `json:"log,omitempty"` // a file beside this one with the output of a part that failed
	Value   any     `json:"result,omitempty"`
}

// skip is an error that says why a part does not apply here.
type skip string

func (s skip) Error() string { return string(s) }

// report is the JSON file.
type report struct {
	Type     string    `json:"type"` // "gpu-check"
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Complete bool      `json:"complete"` // false: the check was cut off after the last part listed
	Emulated bool      `json:"emulated"` // true: no number here was measured on a GPU
	Quick    bool      `json:"quick"`
	Note     string    `json:"note,omitempty"`
	Device   *facts    `json:"device,omitempty"`
	Parts    []result  `json:"parts"`
}

// check is one run of the whole.
type check struct {
	programs
	findings
	out   io.Writer
	file  string // the JSON file
	quick bool
	only  []string
}

// findings are what the parts found so far.
type findings struct {
	report report
	facts  facts
	torch  torchFacts
	runs   map[string]*training // by type, of those that trained
}

// noteEmulated stands wherever the results of an emulated driver are shown.
const noteEmulated = "EMULATED: the kernels ran on the CPU; no number here was measured on a GPU"

// all runs the parts and writes the table and the JSON. Its error wraps
// device.ErrNoDevice when there is no GPU.
func (c *check) all(ctx context.Context, parts []part) (err error) {
	if c.tmp, err = scratch(os.TempDir(), "/tmp", "/dev/shm", filepath.Dir(c.file)); err != nil {
		return fmt.Errorf("make a folder for scratch files: %w; name one in TMPDIR", err)
	}
	defer func() { _ = os.RemoveAll(c.tmp) }()
	if err := os.MkdirAll(filepath.Join(c.tmp, computeCache), 0o700); err != nil {
		return fmt.Errorf("make the driver's cache: %w", err)
	}
	c.runs = map[string]*training{}
	parts = slices.DeleteFunc(parts, func(p part) bool { return !c.wants(p.name) })
	started := time.Now()
	c.report = report{Type: "gpu-check", Version: version, Started: started.UTC().Truncate(time.Second), Quick: c.quick}
	for i, p := range parts {
		c.transcript.Reset()
		r, err := c.one(ctx, p)
		if r.Status == statusFailed {
			r.Log = c.keepTranscript(p.name)
		}
		if errors.Is(err, device.ErrNoDevice) {
			return err
		}
		c.report.Parts = append(c.report.Parts, r)
		c.report.Seconds = time.Since(started).Seconds()
		c.report.Complete = i == len(parts)-1 && !errors.Is(ctx.Err(), context.Canceled)
		fmt.Fprintln(c.out, r.line())
		// Saving after each part keeps what was measured if the machine is taken away.
		if err := c.save(); err != nil {
			return err
		}
		if p.name == "device" && err != nil {
			return fmt.Errorf("without the device nothing else can be checked: %w", err)
		}
	}
	fmt.Fprintln(c.out)
	c.write(c.out)
	fmt.Fprintf(c.out, "\nJSON: %s\n", c.file)
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.New("interrupted: the parts after that were skipped")
	}
	failed := 0
	for _, r := range c.report.Parts {
		if r.Status == statusFailed {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d parts failed; the table above says why", failed, len(c.report.Parts))
	}
	return nil
}

// wants reports whether a part has its turn. The device is always asked, and PyTorch is looked for where
// a part measures it.
func (c *check) wants(part string) bool {
	return part == "device" || len(c.only) == 0 || slices.ContainsFunc(c.only, func(name string) bool {
		return name == part || part == "torch" && strings.HasPrefix(name, "torch-")
	})
}

// one runs a part under its limit; a panic is its failure.
func (c *check) one(ctx context.Context, p part) (r result, err error) {
	begin := time.Now()
	r = result{Name: p.name}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		r.Seconds = float64(time.Since(begin).Milliseconds()) / 1e3
		var s skip
		switch {
		case errors.As(err, &s):
			r.Status, r.Why, err = statusSkipped, s.Error(), nil
		case err != nil:
			r.Status, r.Why = statusFailed, err.Error()
		default:
			r.Status = statusOK
		}
	}()
	if errors.Is(ctx.Err(), context.Canceled) {
		return r, skip("interrupted")
	}
	left := remaining(ctx)
	if left < min(p.limit/8, 5*time.Second) {
		return r, skip("no time was left")
	}
	limit := c.patient(p.limit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.Value, err = p.run(ctx, c)
	if left < limit && errors.Is(err, context.DeadlineExceeded) { // not its own limit
		err = skip("the time for all parts ran out: " + err.Error())
	}
	return r, err
}

// patient returns a longer limit where the host does the GPU's work.
func (f *findings) patient(limit time.Duration) time.Duration {
	if f.facts.Emulated {
		return 4 * limit
	}
	return limit
}

// remaining returns the time to ctx's deadline.
func remaining(ctx context.Context) time.Duration {
	d, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	return time.Until(d)
}

// line returns the result as a line of the log.
func (r result) line() string {
	s := fmt.Sprintf("%-16s %-7s %6.1f s", r.Name, r.Status, r.Seconds)
	if r.Why != "" {
		s += "  " + r.short()
	}
	return s
}

// short returns the reason as one short line. The JSON file has all of it.
func (r result) short() string {
	s, _, _ := strings.Cut(r.Why, "\n")
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:200]) + "..."
	}
	return s
}

// save writes the JSON file in one step, so that no reader sees half of one.
func (c *check) save() error {
	b, err := json.MarshalIndent(c.report, "", " ")
	if err != nil { // a NaN, say; the other results must not be lost with it
		last := &c.report.Parts[len(c.report.Parts)-1]
		last.Value, last.Status, last.Why = nil, statusFailed, strings.TrimSpace(fmt.Sprintf("%s its result cannot be encoded: %v", last.Why, err))
		if b, err = json.MarshalIndent(c.report, "", " "); err != nil {
			return fmt.Errorf("encode the results: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o755); err != nil {
		return fmt.Errorf("make the folder of the JSON file: %w; name another with -out", err)
	}
	tmp := fmt.Sprintf("%s.%d", c.file, os.Getpid())
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the JSON file: %w; name another with -out", err)
	}
	return os.Rename(tmp, c.file)
}

// checkDevice opens the GPU in a process of its own and keeps its facts.
func checkDevice(ctx context.Context, c *check) (any, error) {
	err := c.piece(ctx, &c.facts, "device")
	var x *exitError
	if errors.As(err, &x) && x.code == exitNoDevice {
		return nil, noDevice(x.why)
	}
	if err != nil {
		return nil, err
	}
	c.report.Device, c.report.Emulated = &c.facts, c.facts.Emulated
	if c.facts.Emulated {
		c.quick, c.report.Quick, c.report.Note = true, true, noteEmulated
		fmt.Fprintln(c.out, noteEmulated)
	}
	fmt.Fprintf(c.out, "%s, %s\n", c.facts.Name, units.Prose.Bytes(c.facts.Memory))
	return c.facts, nil
}

// noDevice is what another process said about a missing GPU.
type noDevice string

func (n noDevice) Error() string        { return string(n) }
func (n noDevice) Is(target error) bool { return target == device.ErrNoDevice }
