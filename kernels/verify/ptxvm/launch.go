package ptxvm

import (
	"fmt"
	"slices"
)

// Launch is one kernel launch.
type Launch struct {
	Entry       string
	Grid, Block [3]int
	Shared      int      // bytes of dynamic shared memory
	Params      [][]byte // in the order of the declaration
	// Reverse runs blocks, and the warps of a block, the last one first.
	Reverse bool
}

// budget is how many instructions of warps a launch may take, far more than those of any test. It ends a
// kernel that waits for ever.
const budget = 20 << 20

// grid is a launch under way.
type grid struct {
	launch  Launch
	program *program
	params  []byte
	memory  *Memory
	first   uint64 // number of its first block
	done    []*block
	ran     []bool
	budget  int
	warps   []*warp
}

// block is a block under way, or what is kept of one.
type block struct {
	grid   *grid
	number uint64
	at     [3]int
	epoch  int     // barriers passed, and one
	atomic int     // epoch of the last atomic; -1: none
	fences [][]int // of each thread, the epochs in which it passed one
	memory *sharedMemory

	proxies [][]int   // of each thread, the epochs in which it passed a fence.proxy.async
	issues  [][]issue // of each warpgroup, its products
}

// Run runs a launch to its end. Errors of the kernel are of type *Fault.
func (m *Module) Run(l Launch, mem *Memory) error {
	f := m.entries[l.Entry]
	if f == nil {
		return fmt.Errorf("ptxvm: module %s has no entry %s", m.Name, l.Entry)
	}
	p, err := f.compile()
	if err != nil {
		return err
	}
	g := &grid{launch: l, program: p, memory: mem, ran: make([]bool, len(p.code)), budget: budget}
	if err := g.check(); err != nil {
		return fmt.Errorf("ptxvm: %s: %w", l.Entry, err)
	}
	mem.blocks++ // block 0 would be the host
	g.first = mem.blocks
	threads := l.Block[0] * l.Block[1] * l.Block[2]
	for range (threads + 31) / 32 {
		g.warps = append(g.warps, &warp{})
	}
	n := l.Grid[0] * l.Grid[1] * l.Grid[2]
	g.done = make([]*block, n)
	mem.blocks += uint64(n)
	for i := range n {
		if l.Reverse {
			i = n - 1 - i
		}
		b := &block{
			grid: g, number: g.first + uint64(i), epoch: 1, atomic: -1, fences: make([][]int, threads), proxies: make([][]int, threads), issues: make([][]issue, threads/128),
			at:     [3]int{i % l.Grid[0], i / l.Grid[0] % l.Grid[1], i / l.Grid[0] / l.Grid[1]},
			memory: newShared(g.sharedBytes()),
		}
		g.done[i] = b
		if err = b.run(threads); err != nil {
			break
		}
		b.memory = nil
	}
	mem.forget()
	f.mu.Lock()
	for i, r := range g.ran {
		f.ran[i] = f.ran[i] || r
	}
	f.mu.Unlock()
	return err
}

func (g *grid) sharedBytes() int {
	if d := g.program.dynamic; d != nil {
		return d.offset - sharedBase + g.launch.Shared
	}
	return g.program.static
}

// check compares the launch with the entry's declaration.
func (g *grid) check() error {
	l, f := g.launch, g.program.fn
	threads := 1
	for i := range 3 {
		if l.Grid[i] < 1 || l.Block[i] < 1 {
			return fmt.Errorf("a grid of %v blocks of %v threads", l.Grid, l.Block)
		}
		threads *= l.Block[i]
	}
	most := f.maxThreads[0] * f.maxThreads[1] * f.maxThreads[2]
	if threads > 1024 || most > 0 && threads > most || f.required && l.Block != f.maxThreads {
		return fmt.Errorf("blocks of %v threads, where the entry declares %v", l.Block, f.maxThreads)
	}
	if l.Shared > 0 && g.program.dynamic == nil {
		return fmt.Errorf("%d bytes of dynamic shared memory, of which the entry has none", l.Shared)
	}
	if len(l.Params) != len(f.params) {
		return fmt.Errorf("%d parameters, where the entry declares %d", len(l.Params), len(f.params))
	}
	g.params = make([]byte, f.paramBytes)
	for i, v := range f.params {
		if len(l.Params[i]) != v.size {
			return fmt.Errorf("parameter %d has %d bytes, where the entry declares %d", i, len(l.Params[i]), v.size)
		}
		copy(g.params[v.offset:], l.Params[i])
	}
	return nil
}

// run lets the warps run in turn from barrier to barrier. Threads that have ended
// are not waited for ("Independent Thread Scheduling" in the CUDA C++ Programming
// Guide: a barrier is for all threads of the block that have not exited).
func (b *block) run(threads int) error {
	warps := slices.Clone(b.grid.warps)
	for i, w := range warps {
		w.start(b, b.grid.program, 32*i, threads)
	}
	if b.grid.launch.Reverse {
		slices.Reverse(warps)
	}
	for {
		waiting := 0
		for _, w := range warps {
			if err := w.run(); err != nil {
				return err
			}
			if w.at {
				waiting++
			}
		}
		if waiting == 0 {
			return nil
		}
		for _, w := range warps {
			w.at = false
		}
		b.epoch++
	}
}

// Compile resolves all of the module's entries: what is not known to this package
// is an error, whether it would run or not.
func (m *Module) Compile() error {
	for _, name := range m.Entries() {
		if _, err := m.entries[name].compile(); err != nil {
			return err
		}
	}
	return nil
}

// Coverage says how many of an entry's instructions ran in any launch, and the
// lines of those that never did.
func (m *Module) Coverage(entry string) (ran, all int, missed []int) {
	f := m.entries[entry]
	p, err := f.compile()
	if err != nil {
		return 0, 0, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range f.ran {
		if r {
			ran++
		} else {
			missed = append(missed, p.code[i].line)
		}
	}
	return ran, len(f.ran), missed
}
