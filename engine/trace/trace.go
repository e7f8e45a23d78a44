// Package trace holds the types that every other package shares: spans, the tracks that they are
// written to, the recorder and the collector. Its Session is shown live; package store keeps it in
// a file and replays it.
//
// All times are int64 nanoseconds since the session's start, on one monotonic
// clock. Device times are converted to it before they are recorded.
package trace

import "strconv"

// Clock tells nanoseconds since the session's start. It is monotonic.
type Clock interface{ Now() int64 }

// TrackID names one track, which is a lane on the screen. Worker i has TrackWorker0+i.
type TrackID uint8

// The fixed tracks. A track has exactly one writer goroutine at a time.
const (
	TrackStep    TrackID = iota // the engine's step loop (host)
	TrackCopy                   // host-to-device copies, resolved from events
	TrackCompute                // the compute stream, resolved from events
	TrackStall                  // gaps of the compute stream, written by the analysis: Arg is the Cause
	TrackQueue                  // ready-queue samples: Arg is the number of ready batches
	TrackInline                 // loading inside the step loop (num_workers=0)
	TrackOps                    // the launches of timed steps, one by one: Arg is the ID of an OpTime
	TrackScript                 // what the user's own script does with its batch on the host, as far as that is seen
	TrackPin                    // the thread of a PyTorch training that page-locks batches which workers made
	TrackWorker0 TrackID = 16   // worker i is TrackWorker0+i, i < MaxWorkers
)

// MaxWorkers is the largest num_workers.
const MaxWorkers = 64

// NumTracks is the size of an array indexed by TrackID.
const NumTracks = int(TrackWorker0) + MaxWorkers

// Worker returns the track of worker i.
func Worker(i int) TrackID { return TrackWorker0 + TrackID(i) }

// laneNames are the names of all lanes, made once. Workers are w0, w1, and so on.
var laneNames = func() (n [256]string) {
	for t := range n {
		n[t] = "track " + strconv.Itoa(t)
	}
	for i := range MaxWorkers {
		n[Worker(i)] = "w" + strconv.Itoa(i)
	}
	n[TrackStep], n[TrackCopy], n[TrackCompute], n[TrackStall] = "host", "H2D", "compute", "STALL"
	n[TrackQueue], n[TrackInline], n[TrackOps], n[TrackScript], n[TrackPin] = "ready q", "inline", "timed ops", "script", "pin"
	return n
}()

// String returns the name of the track on the screen, in reports and in exports.
func (t TrackID) String() string { return laneNames[t] }

// IsWorker reports whether batches are made on t: it is a worker's track, or the inline one.
func (t TrackID) IsWorker() bool { return t == TrackInline || t >= TrackWorker0 }

// IsLoader reports whether t has phases of batches.
func (t TrackID) IsLoader() bool { return t.IsWorker() || t == TrackPin }

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
	FlagLost                            // records of this step or of those just before were lost: it counts in no share
	FlagBegins                          // the training begins with this step: those before it learned nothing, and are taken back
)
