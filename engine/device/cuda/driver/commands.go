//go:build cuda && cgo && linux

package driver

// #include "driver.h"
// #include <string.h>
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// MaxArgs bounds the arguments of a launch.
const MaxArgs = C.GS_ARGS

// Launch is a kernel launch with its arguments resolved. An argument's value is
// in the low bytes of its word.
type Launch struct {
	Function    cu.Function
	Grid, Block [3]uint32
	Shared      uint32
	Args        []uint64
}

// Commands is a buffer of launches and event Records that one call enqueues. It lies outside the
// Go heap, so a run has nothing to pin.
type Commands struct {
	cmds *C.gs_command
	n    int
	size int
}

// NewCommands returns an empty buffer for size commands.
func NewCommands(size int) (*Commands, error) {
	p := C.calloc(C.size_t(max(size, 1)), C.sizeof_gs_command)
	if p == nil {
		return nil, fmt.Errorf("no memory for %d commands", size)
	}
	return &Commands{cmds: (*C.gs_command)(p), size: size}, nil
}

// Len returns the number of commands.
func (c *Commands) Len() int { return c.n }

// Free gives the buffer back.
func (c *Commands) Free() {
	C.free(unsafe.Pointer(c.cmds))
	*c = Commands{}
}

func (c *Commands) next() (*C.gs_command, error) {
	if c.n == c.size {
		return nil, fmt.Errorf("a command buffer of %d is full", c.size)
	}
	k := &unsafe.Slice(c.cmds, c.size)[c.n]
	c.n++
	return k, nil
}

// Launch appends a launch.
func (c *Commands) Launch(l *Launch) error {
	if len(l.Args) > MaxArgs {
		return fmt.Errorf("a launch of %d arguments, over the %d that fit", len(l.Args), MaxArgs)
	}
	k, err := c.next()
	if err != nil {
		return err
	}
	k.fn = C.uint64_t(uintptr(unsafe.Pointer(function(l.Function))))
	for i := range 3 {
		k.grid[i], k.block[i] = C.uint32_t(l.Grid[i]), C.uint32_t(l.Block[i])
	}
	k.shared, k.n = C.uint32_t(l.Shared), C.uint32_t(len(l.Args))
	for i, a := range l.Args {
		k.v[i] = C.uint64_t(a)
	}
	return nil
}

// Record appends the Record of e.
func (c *Commands) Record(e cu.Event) error {
	k, err := c.next()
	if err != nil {
		return err
	}
	k.v[0] = C.uint64_t(uintptr(unsafe.Pointer(event(e))))
	return nil
}

// Run enqueues all commands on s in one call. On an error it returns the index
// of the command that failed.
func (c Context) Run(b *Commands, s cu.Stream) (int, error) {
	var failed C.int
	r := C.gs_run(c.c, b.cmds, C.int(b.n), stream(s), &failed)
	return int(failed), result(r)
}

// Graph is a captured command buffer.
type Graph struct{ x C.CUgraphExec }

// Capture records the commands into a graph; s is a stream with nothing else to
// do. On an error it returns the index of the command that failed.
func (c Context) Capture(b *Commands, s cu.Stream) (*Graph, int, error) {
	var x C.CUgraphExec
	var failed C.int
	if err := result(C.gs_capture(c.c, b.cmds, C.int(b.n), stream(s), &x, &failed)); err != nil {
		return nil, int(failed), err
	}
	return &Graph{x}, 0, nil
}

// Replay enqueues the graph on s.
func (c Context) Replay(g *Graph, s cu.Stream) error {
	return result(C.gs_graph_launch(c.c, g.x, stream(s)))
}

// Destroy gives the graph back.
func (g *Graph) Destroy() error {
	err := result(C.cuGraphExecDestroy(g.x))
	g.x = nil
	return err
}

// Noop calls C and returns, to measure the least cost of a call.
func Noop() { C.gs_noop() }
