package trace

import (
	"strings"

	"dev.gpustall/engine/base/knob"
)

// Line is a line of code at which looks found a thread of a PyTorch training. Without a File, it is
// the time that has no line of the user's: a worker without a task, or the loop that waits for one.
type Line struct {
	Segment     int32 // FirstStep for looks from before the end of the first step
	At          Doing
	File        string // as Python has it
	Number      int    // in the file; 0 where it is not known
	Func        string // which the line belongs to
	Approximate bool   `json:",omitempty"` // a thread in the training looked, which sees where others let go of Python's lock
	Library     bool   `json:",omitempty"` // the line is a library's: no code of the user's is beneath the DataLoader
	In          string `json:",omitempty"` // the innermost function that the line called, where more than half of the looks found it: "PIL.ImageFilter.filter"
	Text        string `json:",omitempty"` // of the line, where its file could be read
	Stacks      string `json:",omitempty"` // in which it was found, those with most of its time: outermost call first, as flame graph tools read them, with us
	Looks       int
	Time        int64 // ns, between these looks and the ones before them
	Awaited     int   `json:",omitempty"` // of a line that loads in a worker: those looks in batches that the loop had to wait for
	Lost        int64 `json:",omitempty"` // ns, likewise: the part of Time in which it waited
}

// FirstStep is in the place of a segment.
const FirstStep = -1

// Callers returns the calls of the stack in which most of the line's time was found, outermost first.
func (l *Line) Callers() []string {
	first, _, _ := strings.Cut(l.Stacks, "\n")
	if i := strings.LastIndexByte(first, ' '); i > 0 {
		return strings.Split(first[:i], ";")
	}
	return nil
}

// Doing is what a thread was at when it was looked at.
type Doing string

// What threads are at.
const (
	Loading  Doing = "loading" // it makes a batch
	Starting Doing = "start"   // a worker begins: it is in worker_init_fn, for instance
	Sampling Doing = "sampler" // the loop draws the indices of a batch
	InStep   Doing = "script"  // the loop has a batch, and does none of the following
	Forward  Doing = "forward" // it is in a module's forward pass
	Backward Doing = "backward"
	Stepping Doing = "optimizer"
	Exchange Doing = "communication" // it is in a function of torch.distributed
	Compiles Doing = "compiling"     // it is in torch.compile, for the first time or once more
	Locked   Doing = "GIL held"      // it waits for the GIL, which another thread of its process holds at the line
	Awaited  Doing = "thread"        // it waits for another thread (a queue, an event), which is at the line
	Waiting  Doing = "waiting"       // the loop waits for a batch
	Idling   Doing = "idle"          // a worker has no task, or hands a batch over
)

// OfLoop reports whether the step loop's thread is at it. A loop that loads its batches itself is at
// Loading too.
func (d Doing) OfLoop() bool { return d == Sampling || d == Locked || d.OfStep() || d == Waiting }

// OfWorker reports whether it is a worker's work: it makes a batch, or starts.
func (d Doing) OfWorker() bool { return d == Loading || d == Starting }

// OfStep reports whether the loop is at it with a batch.
func (d Doing) OfStep() bool {
	return d == InStep || d == Forward || d == Backward || d == Stepping || d == Exchange || d == Compiles || d == Awaited
}

// Inline reports whether the loop loads its batches itself in a segment.
func (s *Snapshot) Inline(segment int32) bool {
	g := s.Segment(segment)
	return g != nil && knob.ValueOf(g.Knobs, "num_workers") == "0"
}

// Lines records all lines so far. The recorder owns the slice from then on.
func (r *Recorder) Lines(lines []Line) {
	r.mu.Lock()
	r.lines = lines
	r.mu.Unlock()
}
