//go:build linux

package bridge

import (
	"cmp"
	"encoding/binary"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

// Knobs are the settings of the DataLoader that trains, by PyTorch's names.
type Knobs struct {
	Workers, Prefetch        int
	Pin, Persistent, Ordered bool
	Batch                    int
	DropLast                 bool
	Shuffle                  bool
}

// KnobTable describes the knobs of any script. Specs describes those of one script.
var KnobTable = knob.NewTable(knob.Table[Knobs]{
	{Spec: knob.Spec{Name: "num_workers", Group: knob.GroupLoader, Max: trace.MaxWorkers, Applied: "next batch",
		Help: "processes that load batches; 0 loads in the training loop"}, Field: func(k *Knobs) any { return &k.Workers }},
	{Spec: knob.Spec{Name: "prefetch_factor", Group: knob.GroupLoader, Min: 1, Max: 64, Values: []string{"1", "2", "4", "8", "16", "32", "64"}, Applied: "next batch",
		Help: "batches that each worker loads ahead"}, Default: "2", Field: func(k *Knobs) any { return &k.Prefetch }},
	{Spec: knob.Spec{Name: "pin_memory", Group: knob.GroupLoader, Applied: "next batch",
		Help: "a thread moves batches to page-locked memory, which is copied at full speed"}, Field: func(k *Knobs) any { return &k.Pin }},
	{Spec: knob.Spec{Name: "persistent_workers", Group: knob.GroupLoader, Applied: "next epoch",
		Help: "workers live on from epoch to epoch"}, Field: func(k *Knobs) any { return &k.Persistent }},
	{Spec: knob.Spec{Name: "in_order", Group: knob.GroupLoader, Applied: "next batch",
		Help: "batches come in the sampler's order; off: whichever is ready"}, Default: "on", Field: func(k *Knobs) any { return &k.Ordered }},
	{Spec: knob.Spec{Name: "batch_size", Group: knob.GroupLoader, Min: 1, Max: 1 << 20, Applied: "next run", NoEffect: fixed, Hint: inScript,
		Help: "samples in a batch"}, Default: "1", Field: func(k *Knobs) any { return &k.Batch }},
	{Spec: knob.Spec{Name: "shuffle", Group: knob.GroupLoader, Applied: "next run", NoEffect: fixed, Hint: inScript,
		Help: "samples come in a new order in each epoch"}, Field: func(k *Knobs) any { return &k.Shuffle }},
	{Spec: knob.Spec{Name: "drop_last", Group: knob.GroupLoader, Applied: "next run", NoEffect: fixed, Hint: inScript,
		Help: "leave out a last batch that is not full"}, Field: func(k *Knobs) any { return &k.DropLast }},
})

// fixed is the reason why a setting of the script cannot be changed, and inScript the hint.
const (
	fixed    = "the script decides it"
	inScript = "set it in the script"
)

// knobsOf returns the knobs of a loader.
func knobsOf(l *Loader) Knobs {
	k := Knobs{Batch: max(1, l.BatchSize), DropLast: l.DropLast, Shuffle: l.Shuffle != nil && *l.Shuffle}
	k.take(l.Knobs)
	return k
}

// take sets the knobs that values name.
func (k *Knobs) take(values map[string]int) {
	for _, w := range Live {
		if v, ok := values[w]; ok {
			switch p := KnobTable.Find(w).Field(k).(type) {
			case *int:
				*p = v
			case *bool:
				*p = v != 0
			}
		}
	}
}

// Specs returns the specs of the knobs as one script has them.
func Specs(h *Hello, l *Loader, size *Batch) []knob.Spec {
	specs := KnobTable.Specs()
	for i := range specs {
		s := &specs[i]
		switch {
		case s.Name == "batch_size" && l.Unbatched:
			s.NoEffect, s.Hint, s.Max = "the DataLoader has batch_size=None: it hands on what the data set yields", "", 1
		case s.NoEffect != "":
		case s.Name == "num_workers" && afterCUDA(l, size, 1) != "":
			s.NoEffect, s.Hint = afterCUDA(l, size, 1), hostTensors
		case l.Why != "":
			s.NoEffect, s.Hint = l.Why, inScript
		case !l.Live:
			s.Applied = "next epoch"
		}
		switch {
		case s.Name == "pin_memory" && h.CUDA == "" && h.Other == "" && s.NoEffect == "":
			s.NoEffect = "there is no GPU to copy to"
		case s.Name == "persistent_workers" && l.Apart && !l.Live && s.NoEffect == "": // the script cannot change it either
			s.NoEffect = "the loader makes its iterators itself, with workers of their own"
		case s.Name == "persistent_workers" && l.Apart && s.NoEffect == "":
			s.NoEffect, s.Hint = "the loader's own class decides when its workers end", inScript
		case s.Name == "persistent_workers" && l.Anew && s.NoEffect == "":
			s.NoEffect, s.Hint = "the script makes its DataLoader anew in each epoch", "make the DataLoader once, before the loop over epochs"
		case s.Name == "in_order" && !l.HasInOrder && s.NoEffect == "":
			s.NoEffect, s.Hint = "PyTorch "+h.Torch+" has no such setting: it is always on", "use PyTorch 2.6 or newer"
		}
	}
	return slices.DeleteFunc(specs, func(s knob.Spec) bool { return !l.has(s.Name) })
}

// has reports whether a loop has a knob. A loop without a DataLoader has no knobs of workers.
func (l *Loader) has(knob string) bool {
	if knob == "shuffle" {
		return l.Shuffle != nil
	}
	if l.ByOptimizer() && (knob == "batch_size" || knob == "drop_last") {
		return false
	}
	return len(l.Knobs) > 0 || !slices.Contains(Live, knob)
}

// ByOptimizer reports whether there is no loader, and the loop's steps are those of its optimizer.
func (l *Loader) ByOptimizer() bool { return l.Style == "optimizer" }

// list returns the settings of a loader.
func (l *Loader) list(k Knobs) []knob.Setting {
	return slices.DeleteFunc(KnobTable.List(k), func(k knob.Setting) bool { return !l.has(k.Name) })
}

// The other 8-byte words of the page.
const (
	wordSequence = 0
	wordKnobs    = 1
	wordPaused   = 6
	wordPID      = 7
	wordCaptures = 8  // the number of captures asked for
	wordStep     = 9  // from which the knobs hold, and ...
	wordLatest   = 10 // ... ns of CLOCK_MONOTONIC, from which they hold in any case
	wordTrials   = 11 // the number of trials of workers that were asked for, and ...
	wordTried    = 12 // ... how many workers the last one is for
	wordLooker   = 13 // the process that looks at its own frames and its workers' at theirs, or nobody; 0: not known yet
	wordLoops    = 14 // the mean ns between two looks at loops, and ...
	wordWorkers  = 15 // ... between two looks at each worker; 0: no looks
	pageSize     = 4096
)

// Control changes the knobs of the training. Its methods may be called from any
// goroutine.
type Control struct {
	memory []byte

	mu     sync.Mutex
	wanted Knobs
	asked  Knobs // of the training, by the page
	script Knobs // as the script has them
	specs  []knob.Spec
	known  bool // the script's knobs are known

	// Predict predicts the effect of knobs when they are asked for; nil: there is no prediction.
	Predict func([]knob.Setting) trace.Prediction
	expects map[Knobs]trace.Prediction

	agree  func() // called when knobs were asked for that all ranks of a job are to have from one step on; nil: see Together
	trials uint64 // that the training was asked for
}

// newControl makes the page.
func newControl(path string) (*Control, error) {
	page := make([]byte, pageSize)
	for i := range Live {
		binary.NativeEndian.PutUint64(page[8*(wordKnobs+i):], ^uint64(0)) // -1: nobody asked
	}
	binary.NativeEndian.PutUint64(page[8*wordPID:], uint64(os.Getpid()))
	if err := os.WriteFile(path, page, 0o600); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return &Control{memory: m, expects: map[Knobs]trace.Prediction{}}, err
}

func (c *Control) word(i int) *uint64 { return (*uint64)(unsafe.Pointer(&c.memory[8*i])) }

// begin takes over the knobs of the script.
func (c *Control) begin(k Knobs, specs []knob.Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted, c.asked, c.script, c.specs, c.known = k, k, k, specs, true
}

// Set asks for knob changes: all or none. The trace confirms them as a new segment. Going back to the
// script's own values is always allowed, except for workers that could not begin.
func (c *Control) Set(changes []knob.Setting) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.with(c.wanted, changes)
	if err != nil {
		return err
	}
	if c.Predict != nil && k != c.wanted {
		c.expects[k] = c.Predict(KnobTable.List(k))
	}
	c.want(k)
	return nil
}

// want asks for knobs: the training, or those who agree about it.
func (c *Control) want(k Knobs) {
	c.wanted = k
	if c.agree == nil {
		c.write(k, 0, 0)
	} else if k != c.asked {
		c.agree()
	}
}

// with returns knobs with changes, or why one of them cannot be made.
func (c *Control) with(k Knobs, changes []knob.Setting) (Knobs, error) {
	if !c.known {
		return k, errs.New("set", "a knob", "the training has not loaded a batch yet", "wait for the first one")
	}
	for _, change := range changes {
		before := KnobTable.List(k)
		if err := KnobTable.Set(&k, change.Name, change.Value); err != nil {
			return k, err
		}
		row := KnobTable.Find(change.Name)
		back := change.Name != "num_workers" && row.Value(&k) == row.Value(&c.script)
		if s := knob.SpecOf(c.specs, change.Name); s != nil && s.Bars(change.Value) != "" && !back && knob.Diff(before, KnobTable.List(k)) != "" {
			return k, errs.New("set", change.Name+"="+change.Value, s.Bars(change.Value), cmp.Or(s.Hint, "leave it as it is"))
		}
	}
	return k, KnobTable.Check(k)
}

// another replaces the specs when the loop goes on to another loader.
func (c *Control) another(specs []knob.Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs = specs
}

// asks reports whether the training was asked for these knobs.
func (c *Control) asks(k Knobs) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked == k
}

// follow takes over knobs that the script itself changed. Those that somebody asked for stay.
func (c *Control) follow(k Knobs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script = k
	asked := map[string]int{}
	for i, name := range Live {
		if v := atomic.LoadUint64(c.word(wordKnobs + i)); v != ^uint64(0) {
			asked[name] = int(v)
		}
	}
	k.take(asked)
	pending := c.pending()
	c.asked = k
	if wanted, err := c.with(k, pending); err == nil {
		c.wanted = wanted
	} else {
		c.wanted = k
	}
}

// refuse limits num_workers to the workers that could begin, and returns the new specs.
func (c *Control) refuse(r *Refused, workers int) []knob.Spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.specs = slices.Clone(c.specs)
	if s := knob.SpecOf(c.specs, "num_workers"); s != nil {
		s.Hint = r.Hint
		if workers <= s.Min {
			s.NoEffect = r.Reason
		} else {
			s.Max, s.Bound = workers, r.Reason
		}
	}
	k := c.wanted
	k.Workers = min(k.Workers, workers)
	c.want(k)
	return c.specs
}

// write asks the training for the knobs of k that differ from those asked for so far: from a step on, or from a
// moment in ns of CLOCK_MONOTONIC.
func (c *Control) write(k Knobs, step int32, latest int64) {
	atomic.AddUint64(c.word(wordSequence), 1) // odd while the page is being written
	for i, name := range Live {
		row := KnobTable.Find(name)
		var v uint64
		switch p := row.Field(&k).(type) {
		case *int:
			v = uint64(*p)
		case *bool:
			if *p {
				v = 1
			}
		}
		if asked := atomic.LoadUint64(c.word(wordKnobs+i)) != ^uint64(0); asked || row.Value(&c.asked) != row.Value(&k) {
			atomic.StoreUint64(c.word(wordKnobs+i), v)
		}
	}
	atomic.StoreUint64(c.word(wordStep), uint64(step))
	atomic.StoreUint64(c.word(wordLatest), uint64(latest))
	atomic.AddUint64(c.word(wordSequence), 1)
	c.asked = k
}

// expected returns, once, what was predicted for knobs when they were asked for.
func (c *Control) expected(k Knobs) trace.Prediction {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.expects[k]
	delete(c.expects, k)
	return p
}

// Requested returns the knobs last asked for, of those that the loop has.
func (c *Control) Requested() []knob.Setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(KnobTable.List(c.wanted), func(k knob.Setting) bool { return len(c.specs) > 0 && knob.SpecOf(c.specs, k.Name) == nil })
}

func (c *Control) requested() Knobs {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// Pause stops the training at its next batch, or lets it go on.
func (c *Control) Pause(on bool) {
	var v uint64
	if on {
		v = 1
	}
	atomic.StoreUint64(c.word(wordPaused), v)
}

// Capture asks for a few steps under PyTorch's profiler, from the next step on.
func (c *Control) Capture() { atomic.AddUint64(c.word(wordCaptures), 1) }

// noProcess stands for the process that looks at its own frames where there is none.
const noProcess = -1

// looks says which process is to look at its own frames, and how often.
func (c *Control) looks(pid int, loops, workers time.Duration) {
	atomic.StoreUint64(c.word(wordLoops), uint64(loops))
	atomic.StoreUint64(c.word(wordWorkers), uint64(workers))
	atomic.StoreUint64(c.word(wordLooker), uint64(pid))
}

// Paused reports whether a pause is asked for.
func (c *Control) Paused() bool { return atomic.LoadUint64(c.word(wordPaused)) != 0 }

func (c *Control) close() {
	c.Pause(false)
	binary.NativeEndian.PutUint64(c.memory[8*wordPID:], math.MaxInt32) // no process has that number: gpustall is gone
	_ = unix.Munmap(c.memory)
	c.memory = make([]byte, pageSize) // later calls change nothing
}

// queueLimit returns how many batches may be under way.
func (k *Knobs) queueLimit() int { return cmp.Or(k.Workers*k.Prefetch, 1) }
