package trace

// Role is what a profiler's trace shows at an instant. Where several things went on at once, the
// first role that applies counts.
type Role uint8

// The roles, the one that counts first in front. Order and words are those of the step breakdown in
// PyTorch's TensorBoard plugin.
const (
	RoleKernel Role = iota
	RoleMemcpy
	RoleMemset
	RoleCommunication
	RoleRuntime    // the host was in a call of the CUDA runtime or driver
	RoleDataLoader // the training loop was in the DataLoader
	RoleCPU        // an operator ran on the host
	RoleOther      // the trace shows nothing
	NumRoles
)

var roleNames = [NumRoles]string{"Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other"}

// String returns the name of the plugin's column.
func (r Role) String() string { return roleNames[min(r, RoleOther)] }

// Profile is what a profiler's trace tells of a run in addition to spans and steps.
type Profile struct {
	Rank     int64         // that wrote the trace, and ...
	World    int64         // ... the number of ranks; 0 where the trace does not say
	Loader   string        // the class of the DataLoader's iterator; empty where there is none
	Own      ProfiledRange // the range that takes longest of those whose names say that the loop loads by itself; empty where there is none
	Sends    int64         // ns in which nothing was computed and the host was in a call that copied to a device, and waited
	Blind    int64         // ns in which the host waited for a device, 10 ms or more at a time, and nothing is on record on any: the trace lacks what ran
	Pageable float64       // share of the bytes sent to devices, 0 to 1, that came from memory which is not page-locked
	Steps    []ProfiledStep
	Total    ProfiledStep // of all steps, with those that Steps lacks
	Count    int64        // of all steps
	Cut      int          // steps left out at the end, because the trace lacks their operators or part of their device work
	GPUs     []ProfiledGPU
}

// InlineLoader is the iterator of a DataLoader with num_workers=0, in PyTorch's words.
const InlineLoader = "_SingleProcessDataLoaderIter"

// NumWorkers returns what the trace tells of num_workers: SomeWorkers, "0", or nothing.
func (p *Profile) NumWorkers() string {
	switch {
	case p == nil || p.Loader == "":
		return ""
	case p.Loader == InlineLoader:
		return "0"
	}
	return SomeWorkers
}

// SomeWorkers is the num_workers of a DataLoader that has workers, where their number is not known.
const SomeWorkers = "1 or more"

// Lacking says why steps at the end of the trace were left out.
func (p *Profile) Lacking() string {
	if len(p.GPUs) == 0 {
		return "in which no operator ran"
	}
	return "of which the trace lacks device work"
}

// Busiest returns the GPU on which kernels ran longest.
func (p *Profile) Busiest() *ProfiledGPU {
	most := &p.GPUs[0]
	for i := range p.GPUs {
		if g := &p.GPUs[i]; g.Utilisation > most.Utilisation {
			most = g
		}
	}
	return most
}

// ProfiledRange is a range that the user named.
type ProfiledRange struct {
	Name  string
	Share float64 // of the steps' time, 0 to 1, in which nothing ran on a device and the DataLoader was not at work
}

// WholeTrace is the name of the only step of a trace that does not mark steps.
const WholeTrace = "all"

// ProfiledStep is the time of a step by role.
type ProfiledStep struct {
	Name   string // "ProfilerStep#5"
	Roles  [NumRoles]int64
	Length int64 // ns; the roles add up to it
}

// Share returns the share of the steps' time, 0 to 1, that went to a role.
func (p *Profile) Share(r Role) float64 {
	return p.ShareOf(p.Total.Roles[r])
}

// ShareOf returns ns as a share of the steps' time, 0 to 1.
func (p *Profile) ShareOf(ns int64) float64 {
	if p.Total.Length <= 0 {
		return 0
	}
	return float64(ns) / float64(p.Total.Length)
}

// ProfiledGPU is what the trace tells of one GPU over all steps.
type ProfiledGPU struct {
	ID     int
	Name   string
	Memory int64 // bytes that it has; 0 where that is not recorded
	Peak   int64 // bytes that were allocated at the most; 0 where that is not recorded

	Utilisation float64  // share of the time, 0 to 1, in which a kernel ran
	Efficiency  *float64 // mean share of its multiprocessors, 0 to 1, that had a thread block, estimated from the grids; nil where that is not recorded
	Occupancy   *float64 // mean share of its warps in use while kernels ran, 0 to 1, estimated by the profiler; nil where that is not recorded

	Talked  int64 // ns in which a kernel of communication ran, and ...
	Exposed int64 // ... the part of it in which no kernel computed; a copy hides nothing

	Launches Launches

	Idle IdleTime
	Host []HostTime // of the busiest one: what the host was doing in the idle time; the parts in their order, of each the longest first
}

// Launches says how the host launched the work of a GPU: kernels, copies and memsets whose call is on record.
type Launches struct {
	Count     int64   // of work
	Short     int64   // work that took less time than the call that launched it, where that is no outlier
	LongCalls int64   // outliers: calls longer than 50 us
	Delayed   int64   // work that began over 100 us after its call had ended
	Delay     int64   // ns, the median from a call's end to the beginning of its work
	Queue     float64 // mean length of the queue of the stream with most work, at each change
	QueueMost int64   // its greatest length
}

// HostPart is one way to say what a thread of the host was doing. Each divides the same time.
type HostPart string

// The parts.
const (
	HostRange    HostPart = "range"           // that the user or PyTorch's own Python named
	HostOperator HostPart = "operator"        // of PyTorch
	HostCall     HostPart = "runtime call"    // of CUDA's, say
	HostFrame    HostPart = "Python function" // where the trace has stacks
)

// HostParts are all parts, in the order in which they are told.
var HostParts = []HostPart{HostRange, HostOperator, HostCall, HostFrame}

// HostTime is how long the host was in something while a GPU was idle. It is the innermost one of its part.
type HostTime struct {
	Part HostPart
	Name string
	Time int64 // ns
}

// Overlap returns the share of its communication, 0 to 1, that kernels which compute hide.
func (g *ProfiledGPU) Overlap() float64 {
	return float64(g.Talked-g.Exposed) / float64(max(1, g.Talked))
}

// IdleTime is the time in which nothing ran on a GPU, in ns, by what ended it.
type IdleTime struct {
	Host   int64 // what ran next was launched when the device was idle already
	Call   int64 // the call that launched it had begun before, and was not over yet: it waited
	Kernel int64 // it was launched before, and began as soon as a kernel can
	Other  int64 // it was launched before, and waited for something else; or its launch is not recorded
}

// All returns the sum.
func (t IdleTime) All() int64 { return t.Host + t.Call + t.Kernel + t.Other }
