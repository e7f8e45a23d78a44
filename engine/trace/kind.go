package trace

// Kind is what a track was doing in a span.
type Kind uint8

// Kinds of loader tracks come first, then the step loop's, then the device's. A kind
// is stored by its name.
const (
	KindNone       Kind = iota
	KindRead            // worker: fetching stored bytes
	KindFirstByte       // worker: waiting for an object store to begin to send
	KindDecode          // worker: bytes to pixels
	KindTransform       // worker: augmenting and normalising
	KindFetch           // worker: getting samples from a data set that does not tell its phases; Arg is a Mix
	KindCollate         // worker: assembling the batch
	KindPin             // worker: page-locking the slot (or copying to a locked one)
	KindBlocked         // worker: waiting; Arg is a BlockReason
	KindStart           // worker: starting up
	KindNext            // step loop: blocked in Loader.Next for Batch
	KindSampler         // step loop: drawing the indices of a batch, while it would wait for one
	KindEnqueue         // step loop: enqueuing copies and launches
	KindSync            // step loop: blocked on the device or on metrics
	KindStarved         // step loop or a stream's thread on the host: ready to run, without a core
	KindRebuild         // step loop: applying a knob (plan rebuild, buffers)
	KindTransition      // step loop: from when a knob takes effect until the queue is refilled
	KindPause           // step loop: paused by the user
	KindExchange        // step loop: nothing is computed until other processes have answered
	KindBackward        // script track: a backward pass, on the host
	KindOptimizer       // script track: an optimizer's step, on the host
	KindCopy            // copy stream: host to device; Arg is KiB
	KindCompute         // compute stream: one step's kernels
	KindOp              // ops track: one launch of a timed step; Arg is the ID of an OpTime
	KindStall           // stall track: Arg is the Cause
	KindQueue           // queue track: an instant. Arg is the ready batches, Flags the capacity. Batch is the one that in_order waits for while others are ready, or -1
	NumKinds
)

// KindInfo is what the screen and the report say of a kind.
type KindInfo struct {
	Name   string
	Letter byte   // in the report's lanes, lower case; the screen has it too, upper case; 0 where it is not drawn
	Doing  string // beside the letter
	Cause  Cause  // of a stall while a loader track or the step loop did this; numCauses: none
}

var kinds = [NumKinds]KindInfo{
	KindNone:       {"none", 0, "", numCauses},
	KindRead:       {"read", 'r', "read", CauseRead},
	KindFirstByte:  {"firstbyte", 'b', "first byte", CauseFirstByte},
	KindDecode:     {"decode", 'd', "decode", CauseDecode},
	KindTransform:  {"transform", 't', "transform", CauseTransform},
	KindFetch:      {"fetch", 'g', "fetch", CauseFetch},
	KindCollate:    {"collate", 'c', "collate", CauseCollate},
	KindPin:        {"pin", 'p', "page-lock", CausePin},
	KindBlocked:    {"blocked", '.', "waiting for work", numCauses},
	KindStart:      {"start", 's', "start", CauseStartup},
	KindNext:       {"next", 'n', "waiting for data", CauseWorkers},
	KindSampler:    {"sampler", 'k', "drawing indices", CauseSampler},
	KindEnqueue:    {"enqueue", 'l', "enqueuing", CauseLaunch},
	KindSync:       {"sync", 'y', "waiting for the device", CauseSync},
	KindStarved:    {"starved", 'q', "waiting for a core", CauseHost},
	KindRebuild:    {"rebuild", 'x', "changing a setting", CauseTransition},
	KindTransition: {"transition", 0, "", CauseTransition},
	KindPause:      {"pause", 'z', "paused", CausePaused},
	KindExchange:   {"exchange", 'm', "exchanging data", CauseCommunication},
	KindBackward:   {"backward", 'v', "backward", numCauses},
	KindOptimizer:  {"optimizer", 'u', "optimizer", numCauses},
	KindCopy:       {"copy", '=', "copy to the device", numCauses},
	KindCompute:    {"compute", '#', "busy", numCauses},
	KindOp:         {"op", 0, "", numCauses},
	KindStall:      {"stall", 0, "", numCauses},
	KindQueue:      {"queue", 0, "", numCauses},
}

// Info returns the row of a kind. A kind that this program does not know has the row of none.
func (k Kind) Info() *KindInfo {
	if k >= NumKinds {
		k = KindNone
	}
	return &kinds[k]
}

// String returns the kind's name.
func (k Kind) String() string {
	if k >= NumKinds {
		return "invalid"
	}
	return kinds[k].Name
}

// Cause returns the cause of a stall while a loader track or the step loop does this. It is false
// where the cause does not follow from the kind alone.
func (k Kind) Cause() (Cause, bool) {
	c := k.Info().Cause
	return c, c < numCauses
}

// IsPart reports whether k is one part of what a script does with its batch.
func (k Kind) IsPart() bool { return k == KindBackward || k == KindOptimizer }

// BlockReason says what a blocked worker waits for (Span.Arg of KindBlocked).
type BlockReason uint32

const (
	BlockIdle     BlockReason = iota // there is no work: all batches of the epoch are taken
	BlockPrefetch                    // the prefetch limit holds the next batch back
	BlockSlot                        // there is no free slot: the device still owns all of them
	BlockPaused                      // parked
	numReasons
)

// ReasonInfo is what the exports and the screen say of a BlockReason.
type ReasonInfo struct{ Name, Says string }

var reasons = [numReasons + 1]ReasonInfo{
	BlockIdle:     {"idle", "idle"},
	BlockPrefetch: {"prefetch", "held by prefetch"},
	BlockSlot:     {"slot", "no free slot"},
	BlockPaused:   {"paused", "parked"},
	numReasons:    {"unknown", "blocked"},
}

// Info returns the row of a reason. A reason that this program does not know has the last row.
func (r BlockReason) Info() *ReasonInfo { return &reasons[min(r, numReasons)] }
