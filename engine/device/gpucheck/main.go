// Command gpucheck checks gpustall on a GPU and measures it there. It runs the
// binaries of the bundle it lies in (make gpu-bundle), one process for each
// part, so that a part that crashes or hangs costs its own result alone. It ends
// in a short table and a JSON file; docs/guide/gpu.md explains both.
//
// Exit status: 0 every part is ok or skipped, 1 a part failed, 2 wrong use, 3 no
// GPU.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"dev.gpustall/engine/device"
)

// version is set by the linker.
var version = "dev"

const (
	exitFailed   = 1
	exitUsage    = 2
	exitNoDevice = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, log io.Writer) int {
	fs := flag.NewFlagSet("gpucheck", flag.ContinueOnError)
	fs.SetOutput(log)
	c := &check{out: out}
	fs.StringVar(&c.dir, "dir", "", "the bundle's folder (default: this program's)")
	fs.StringVar(&c.file, "out", "", "the JSON file (default: gpu-check.json in $OUT, else in the bundle)")
	fs.BoolVar(&c.quick, "quick", false, "tiny sizes, to try the check itself; always so on the emulated driver")
	budget := fs.Duration("budget", 7*time.Minute+30*time.Second, "time for all parts; what does not fit is skipped")
	only := fs.String("only", "", "run these parts alone: names with commas between")
	piece := fs.String("piece", "", "internal: run one measurement in this process and print its JSON")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	if *piece != "" {
		return runPiece(*piece, fs.Args(), out, log)
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(log, "gpucheck: %q is not expected; see -h\n", fs.Arg(0))
		return exitUsage
	}
	if *only != "" {
		c.only = strings.Split(*only, ",")
	}
	if err := c.prepare(); err != nil {
		fmt.Fprintln(log, "gpucheck:", err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(context.Background(), *budget)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := c.all(ctx, parts())
	switch {
	case errors.Is(err, device.ErrNoDevice):
		fmt.Fprintln(log, err)
		return exitNoDevice
	case err != nil:
		fmt.Fprintln(log, "gpucheck:", err)
		return exitFailed
	}
	return 0
}

// prepare finds the folders and checks the names of parts.
func (c *check) prepare() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c.self = self
	if c.dir == "" {
		c.dir = filepath.Dir(self)
	}
	if c.file == "" {
		dir, err := writable(os.Getenv("OUT"), c.dir, ".", os.TempDir())
		if err != nil {
			return fmt.Errorf("JSON file: %w; name one with -out", err)
		}
		c.file = filepath.Join(dir, "gpu-check.json")
	}
	if c.file, err = filepath.Abs(c.file); err != nil {
		return fmt.Errorf("JSON file: %w", err)
	}
	known := map[string]bool{}
	var names []string
	for _, p := range parts() {
		known[p.name] = true
		names = append(names, p.name)
	}
	for _, n := range c.only {
		if !known[n] {
			return fmt.Errorf("-only %s: the parts are %s", n, strings.Join(names, ", "))
		}
	}
	return nil
}

// runPiece runs one measurement and prints its result as the last line, in JSON.
func runPiece(name string, args []string, out, log io.Writer) int {
	p, ok := pieces[name]
	if !ok {
		fmt.Fprintf(log, "gpucheck: no piece %q\n", name)
		return exitUsage
	}
	lines := json.NewEncoder(out)
	v, err := p(args, func(v any) { _ = lines.Encode(v) }) // the last one tells of a broken pipe
	if err == nil {
		err = lines.Encode(v)
	}
	if err != nil {
		fmt.Fprintln(log, err)
		if errors.Is(err, device.ErrNoDevice) {
			return exitNoDevice
		}
		return exitFailed
	}
	return 0
}
