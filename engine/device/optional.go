package device

import (
	"context"
	"time"
)

// What some devices can do besides the contract. A caller asks for it with a type
// assertion.

// OpTimer is a Device that can time the launches of a program one by one.
type OpTimer interface {
	// LaunchTimed is Launch that also notes the time before p's first launch and
	// after each. It replays no graph. While TimedRuns launches of p are unread it
	// is a plain Launch and returns no Timing.
	LaunchTimed(s Stream, p Program) (Timing, error)
	// OpTimes appends the device time of each of t's launches, in the order given
	// to Prepare, to dst[:0] and forgets t. It does not block: ErrNotReady says
	// that t has not completed. A Timing ends with its Program.
	OpTimes(t Timing, dst []time.Duration) ([]time.Duration, error)
}

// HostStreams is a Device whose streams, or copies, run on threads of the host. Such a thread
// may have to wait for a core.
type HostStreams interface {
	// Late returns how long the thread of e's stream waited for a core since the
	// Record before e's. e must have completed. The waits of kernels are left out.
	Late(e Event) time.Duration
}

// HostKernels is a Device whose kernels run on threads of the host.
type HostKernels interface {
	// Starved returns how long the threads that run kernels were on a core, and how
	// long they waited for a core. Both count the measured launches since the device
	// was opened. ok is false where that is not known. Any goroutine may call it.
	Starved() (core, waiting time.Duration, ok bool)
}

// MemoryMeter is a Device that tells how much memory is allocated now, in bytes.
type MemoryMeter interface{ MemoryHeld() int64 }

// Chooser is a Device that chooses between several kernels for an operation.
type Chooser interface {
	// Variants appends, for each launch of p, the name of the kernel chosen to
	// dst[:0]; empty where there is one kernel only.
	Variants(p Program, dst []string) []string
}

// Capturer is a Device that can replay a program as one unit (a CUDA graph)
// instead of enqueuing its launches.
type Capturer interface {
	// Capture turns the replay on or off for later launches of p.
	Capture(p Program, on bool) error
}

// Reserver is a Device that can take all memory of a run from its driver at once,
// before the run allocates any.
type Reserver interface {
	// Reserve takes what the reservation lacks from the driver in one piece, and
	// returns that piece's bytes: 0 when what is held suffices. It fails with
	// ErrOutOfMemory, having changed nothing.
	Reserve(Reservation) (int64, error)
	// Fits reports whether Reserve would succeed.
	Fits(Reservation) bool
	Overheader // Reserve counts the overhead too
}

// Overheader is a Device that knows how many bytes it needs for launches besides their buffers:
// its kernels' scratch memory. The launches have no buffers yet.
type Overheader interface{ Overhead([]Launch) int64 }

// Reservation is memory that is about to be allocated.
type Reservation struct {
	Sizes    []int    // of the allocations, in their order, in bytes
	Launches []Launch // what will be prepared, without buffers
	Instead  []Buffer // allocated now, and freed before the first of Sizes is allocated
	// Afresh gives all memory back to the driver first and takes one piece for all
	// of Sizes. Nothing may be allocated and no program prepared when Reserve is
	// called. Fits may be called before that.
	Afresh bool
}

// Tuner is a Device with several variants of some kernels. It can find out which of them compute
// right and which is the fastest.
type Tuner interface {
	// Untuned is the number of operations in ls whose variant is not decided yet.
	Untuned(ls []Launch) int
	// Tune decides on the variants of the operations in ls, until ctx is done. It
	// needs memory besides what is allocated and keeps the device busy, so no
	// training may run meanwhile. Operations that it has no time for take the
	// planner's guess. The notes are for the person who runs it.
	Tune(ctx context.Context, ls []Launch, progress func(done, total int)) (notes []string)
	// UseTuned says whether later programs take the variants decided on, or the
	// planner's guesses.
	UseTuned(on bool)
	// Tuned lists the decisions so far.
	Tuned() []Tuned
}

// Tuned is a decision between the variants of a kernel.
type Tuned struct {
	Layer, Op string // of the first launch that asked
	Variant   string // taken
	First     string // the planner's guess, which the others are compared with
	// Time and FirstTime are the times of one launch of Variant and First.
	Time, FirstTime time.Duration
	Cached          bool    // found by an earlier run
	Tried           []Tried // by this run
}

// Tried is the result of trying a variant.
type Tried struct {
	Variant string
	Time    time.Duration // of one launch
	Why     string        // what was wrong with it; empty when nothing was
	Broken  bool          // the device is unusable in the process that tried it
}
