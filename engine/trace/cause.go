package trace

// Cause is why the compute stream was empty. Every instant of a gap has exactly one.
type Cause uint8

// The causes, in the order in which they are listed. A file stores a cause by its name, so a new
// one may stand anywhere in this list. It needs a constant here, a row in causes, and the place in
// package attribution that charges it.
const (
	CauseRead Cause = iota
	CauseFirstByte
	CauseDecode
	CauseTransform
	CauseFetch
	CauseCollate
	CausePin
	CauseWorkers
	CausePrefetch
	CauseStartup
	CauseOrder
	CauseSampler
	CauseDataLoader
	CauseHost
	CauseCopy
	CauseLaunch
	CauseSync
	CauseMemory
	CauseInit
	CauseCommunication
	CauseTransition
	CauseUnknown
	CausePaused // excluded from wall in every share
	numCauses
)

// NumCauses is the size of an array indexed by Cause.
const NumCauses = int(numCauses)

// Group joins causes that have the same remedy.
type Group uint8

// The groups. Where two cost the same, a verdict names the later one.
const (
	GroupNone Group = iota // of a verdict that no cause explains
	GroupData
	GroupHost
	GroupCopy
	GroupLaunch
	GroupSync
	GroupMemory
	GroupInit
	GroupCommunication
	GroupTransition
	GroupUnknown
	GroupPaused
	NumGroups
)

// CauseInfo is what the screen, the report and the verdict say of a cause.
type CauseInfo struct {
	Name   string // on screen, in exports and in storage
	Letter rune   // in lanes and legends; an upper-case letter or '?', unique
	Group  Group
	For    string // the device waits for ...
	Means  string // a clause: what was going on then
	Colour uint8  // its number in the series of colours of the screen; each has its own
}

var causes = [NumCauses]CauseInfo{
	CauseRead:          {"read", 'R', GroupData, "reading", "the batch's worker was reading", 0},
	CauseFirstByte:     {"firstbyte", 'B', GroupData, "the first byte of a store's answer", "the batch's worker was waiting for an object store to begin to send", 19},
	CauseDecode:        {"decode", 'D', GroupData, "decoding", "the batch's worker was decoding", 1},
	CauseTransform:     {"transform", 'T', GroupData, "transforming", "the batch's worker was augmenting and normalising", 2},
	CauseFetch:         {"fetch", 'G', GroupData, "samples from the data set", "the batch's worker was in the data set's own code, which does not tell reading from decoding and transforming", 18},
	CauseCollate:       {"collate", 'C', GroupData, "collating", "the batch was being put together or handed over", 3},
	CausePin:           {"pin", 'P', GroupData, "page-locking", "the batch's worker was page-locking memory", 4},
	CauseWorkers:       {"workers", 'W', GroupData, "a free worker", "the batch was not begun: all workers were on others", 5},
	CausePrefetch:      {"prefetch", 'F', GroupData, "the prefetch limit", "the batch was not begun: the prefetch limit held it back", 6},
	CauseStartup:       {"startup", 'S', GroupData, "workers to start", "workers were starting", 7},
	CauseOrder:         {"order", 'O', GroupData, "a batch whose turn it was while others were ready", "others were ready, but in_order had the loop wait for this one", 14},
	CauseSampler:       {"sampler", 'K', GroupData, "the sampler", "the training loop was drawing the indices of a batch from the sampler", 22},
	CauseDataLoader:    {"dataloader", 'I', GroupData, "the DataLoader", "the training loop was in PyTorch's DataLoader, which took a batch that was ready, say, or made one itself, and no work on a batch is on record meanwhile", 16},
	CauseHost:          {"host", 'Q', GroupHost, "a core for a thread of the host", "a thread that the device needs (the step loop, a copy, or its own on a cpu) was ready to run and had no core", 15},
	CauseCopy:          {"copy", 'H', GroupCopy, "the copy to the device", "the batch was being copied to the device, or its copy was due and had not begun", 8},
	CauseLaunch:        {"launch", 'L', GroupLaunch, "the launch", "the host was still enqueuing work, or the device had not yet begun it (launch overhead)", 9},
	CauseSync:          {"sync", 'Y', GroupSync, "results to be read", "the host was waiting for the device or for results", 10},
	CauseMemory:        {"memory", 'A', GroupMemory, "memory to be allocated or freed", "the host was allocating or freeing memory of the device, or page-locking its own", 20},
	CauseInit:          {"init", 'E', GroupInit, "a first call", "the host was setting up: it made a context, loaded a module, or called a kernel for the first time", 21},
	CauseCommunication: {"communication", 'M', GroupCommunication, "other processes of the training", "processes of the training were exchanging data, and nothing was computed", 17},
	CauseTransition:    {"transition", 'X', GroupTransition, "a change of settings", "a setting was being changed, until the queue was full again", 11},
	CauseUnknown:       {"unknown", '?', GroupUnknown, "nothing on record", "no recorded activity explains it", 12},
	CausePaused:        {"paused", 'Z', GroupPaused, "the end of a pause", "paused by the user, or a model was being evaluated; in no share", 13},
}

// GroupInfo is what a verdict says of a group.
type GroupInfo struct {
	Name  string // in a list
	Class string // of a run that loses most to it; empty where it is never judged
	Loses string // the sentence that says so; %s is the share of the time
}

var groups = [NumGroups]GroupInfo{
	GroupData:          {"data", "input-bound", "the device waits for data %s of the time"},
	GroupHost:          {"host", "host-bound", "the device waits for a thread of the host that has no core %s of the time"},
	GroupCopy:          {"copies", "copy-bound", "the device waits for host-to-device copies %s of the time"},
	GroupLaunch:        {"launches", "launch-bound", "the device is empty %s of the time while its work is enqueued and begun"},
	GroupSync:          {"results", "sync-bound", "the device is empty %s of the time while the host waits for results"},
	GroupMemory:        {"memory", "allocation-bound", "the device is empty %s of the time while memory is allocated or freed"},
	GroupInit:          {"set-up", "init-bound", "the device is empty %s of the time while contexts are made and modules are loaded"},
	GroupCommunication: {"communication", "communication-bound", "%s of the time goes to communication between processes"},
	GroupTransition:    unexplained,
	GroupUnknown:       unexplained,
}

var unexplained = GroupInfo{"no known reason", "unexplained", "the device is idle %s of the time for no recorded cause"}

// Info returns the row of a cause. A cause that this program does not know has the row of unknown.
func (c Cause) Info() *CauseInfo {
	if c >= numCauses {
		c = CauseUnknown
	}
	return &causes[c]
}

// String returns the cause's name.
func (c Cause) String() string {
	if c >= numCauses {
		return "invalid"
	}
	return causes[c].Name
}

// Group returns the cause's group.
func (c Cause) Group() Group { return c.Info().Group }

// IsData reports whether the device waits for data in c.
func (c Cause) IsData() bool { return c.Group() == GroupData }

// ParseCause returns the cause of a name that String gave.
func ParseCause(s string) (Cause, bool) {
	for c := range numCauses {
		if causes[c].Name == s {
			return c, true
		}
	}
	return CauseUnknown, false
}

// Info returns the row of a group.
func (g Group) Info() *GroupInfo {
	if g >= NumGroups {
		g = GroupNone
	}
	return &groups[g]
}

// Cause returns the cause of a stall span.
func (s *Span) Cause() Cause {
	if s.Arg >= uint32(numCauses) {
		return CauseUnknown
	}
	return Cause(s.Arg)
}
