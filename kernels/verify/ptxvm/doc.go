// Package ptxvm executes PTX, so that tests run the very text that is embedded for the GPU: inline
// assembly, the compiler's builtins and its code generation included. It knows what that text uses
// and refuses the rest. An instruction, a modifier or a type that it does not know is an error with
// its line. So is whatever the PTX ISA manual leaves undefined where it can be noticed:
//
//   - reading a register, a byte of shared memory or of global memory that was
//     never written;
//   - an access outside its buffer, or not aligned to its size;
//   - shared memory that one thread writes and another touches with no barrier
//     between, and global memory likewise, also between blocks (which need
//     fences and an atomic);
//   - data of an asynchronous copy read before the copy was waited for;
//   - a warp's instruction (mma, ldmatrix, bar.sync) that part of the warp
//     reaches, another part being elsewhere or gone.
//
// A warp runs as its threads' program counters tell: those furthest behind go
// first, all that stand at one instruction together. Blocks run one after the
// other. Nothing here says how fast a kernel is.
//
// Section names in the comments are those of NVIDIA's "PTX ISA" manual, 8.x.
package ptxvm

import (
	"fmt"
	"strings"
)

// Fault is the error of a kernel that did what it must not.
type Fault struct {
	Entry  string
	Line   int    // in the module's text
	Text   string // of the line
	Block  [3]int
	Thread int // in the block; -1: no single one
	Reason string
}

func (f *Fault) Error() string {
	who := fmt.Sprintf("block %v", f.Block)
	if f.Thread >= 0 {
		who += fmt.Sprintf(" thread %d", f.Thread)
	}
	return fmt.Sprintf("ptxvm: %s line %d %q, %s: %s", f.Entry, f.Line, strings.TrimSpace(f.Text), who, f.Reason)
}
