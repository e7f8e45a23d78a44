// Package trace is the leaf that every other package speaks: spans and the
// tracks they are written to, the recorder, the collector, and the session that
// is shown live, stored in a file and replayed from it.
//
// All times are int64 nanoseconds since the session's start, on one monotonic
// clock. Device times are converted to it before they are recorded.
package trace

// Clock tells nanoseconds since the session's start. It is monotonic.
type Clock interface{ Now() int64 }

// TrackID names one lane. Workers take TrackWorker0+i.
type TrackID uint8

// The fixed tracks. A track has exactly one writer goroutine at a time.
const (
	TrackStep    TrackID = iota // the engine's step loop (host)
	TrackCopy                   // host-to-device copies, resolved from events
	TrackCompute                // the compute stream, resolved from events
	TrackStall                  // gaps of the compute stream, written by the analysis: Arg is the Cause
	TrackQueue                  // ready-queue samples: Arg is the number of ready batches
	TrackInline                 // loading inside the step loop (num_workers=0)
	TrackOps                    // the launches of timed steps, one by one: Arg is the index of Session.Ops
	TrackWorker0 TrackID = 16   // worker i is TrackWorker0+i, i < MaxWorkers
)

// MaxWorkers is the largest num_workers.
const MaxWorkers = 64

// NumTracks is the size of an array indexed by TrackID.
const NumTracks = int(TrackWorker0) + MaxWorkers

// Worker returns the track of worker i.
func Worker(i int) TrackID { return TrackWorker0 + TrackID(i) }

// IsWorker reports whether t is a loader track: a worker's or the inline one.
func (t TrackID) IsWorker() bool { return t == TrackInline || t >= TrackWorker0 }

// Kind is what a span's track was doing.
type Kind uint8

// Kinds of loader tracks come first, then the step loop's, then the device's.
const (
	KindNone       Kind = iota
	KindRead            // worker: fetching stored bytes
	KindDecode          // worker: bytes to pixels
	KindTransform       // worker: augmenting and normalising
	KindCollate         // worker: assembling the batch
	KindPin             // worker: page-locking the slot (or copying to a locked one)
	KindBlocked         // worker: waiting; Arg is a BlockReason
	KindStart           // worker: starting up
	KindNext            // step loop: blocked in Loader.Next for Batch
	KindEnqueue         // step loop: enqueuing copies and launches
	KindSync            // step loop: blocked on the device or on metrics
	KindRebuild         // step loop: applying a knob (plan rebuild, buffers)
	KindTransition      // step loop: from a knob's application until the queue is refilled
	KindPause           // step loop: paused by the user
	KindCopy            // copy stream: host to device; Arg is KiB
	KindCompute         // compute stream: one step's kernels
	KindOp              // ops track: one launch of a timed step; Arg is the index of Session.Ops
	KindStall           // stall track: Arg is the Cause
	KindQueue           // queue track: an instant, Arg is ready batches, Flags is the capacity
	NumKinds
)

// BlockReason says what a blocked worker waits for (Span.Arg of KindBlocked).
type BlockReason uint32

const (
	BlockIdle     BlockReason = iota // no work: the epoch's batches are all taken
	BlockPrefetch                    // the prefetch limit holds the next batch back
	BlockSlot                        // no free slot: the device still owns them all
	BlockPaused                      // parked
)

// Span is one interval on one track: 32 bytes, no pointers.
type Span struct {
	Start, End int64
	Step       int32 // global step, -1 when it belongs to none
	Batch      int32 // batch sequence number over the session, -1 when none
	Kind       Kind
	Track      TrackID
	Flags      uint16
	Arg        uint32
}

// Flags of spans and steps.
const (
	FlagInjected     uint16 = 1 << iota // an injected bottleneck contributed
	FlagCeiling                         // served from cached batches
	FlagTransition                      // the step lies in a knob's transition
	FlagFirstOfEpoch                    // first step of an epoch
	FlagLastOfEpoch                     // last step of an epoch
	FlagModelled                        // time from a model (emu), not measured
	FlagTimed                           // the step's ops were timed one by one, which makes it longer
)

// Cause is why the compute stream was empty. Every gap has exactly one.
type Cause uint8

// The causes in the order in which they are decided (see package stall).
const (
	CauseRead       Cause = iota // data: the awaited batch's worker was reading
	CauseDecode                  // data: … decoding
	CauseTransform               // data: … transforming
	CauseCollate                 // data: … collating, or handing over
	CausePin                     // data: … page-locking
	CauseWorkers                 // data: not started, all workers on other batches
	CausePrefetch                // data: not started, the prefetch limit held it
	CauseStartup                 // data: workers starting
	CauseCopy                    // compute waited for this batch's copy
	CauseLaunch                  // the host was still enqueuing, or the device had not yet begun what was
	CauseSync                    // the host was blocked on the device or on metrics
	CauseTransition              // a knob change, until the queue was refilled
	CauseUnknown                 // the rest
	CausePaused                  // the user paused the engine; excluded from wall in every share
	NumCauses       = int(CausePaused) + 1
)

var causeNames = [NumCauses]string{
	"read", "decode", "transform", "collate", "pin", "workers", "prefetch", "startup",
	"copy", "launch", "sync", "transition", "unknown", "paused",
}

// String returns the name used on screen, in exports and in storage.
func (c Cause) String() string {
	if int(c) < NumCauses {
		return causeNames[c]
	}
	return "invalid"
}

// IsData reports whether c is a sub-cause of data.
func (c Cause) IsData() bool { return c <= CauseStartup }

// ParseCause is the inverse of String.
func ParseCause(s string) (Cause, bool) {
	for i, n := range causeNames {
		if n == s {
			return Cause(i), true
		}
	}
	return CauseUnknown, false
}

var kindNames = [NumKinds]string{
	"none", "read", "decode", "transform", "collate", "pin", "blocked", "start",
	"next", "enqueue", "sync", "rebuild", "transition", "pause", "copy", "compute", "op", "stall", "queue",
}

func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return "invalid"
}
