package advice

import (
	"fmt"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// The thresholds of PyTorch's TensorBoard plugin (analyze in profiler/data.py of
// tb_plugin, github.com/pytorch/kineto). Its threshold for the DataLoader is moderate.
const (
	muchCommunication = 0.10 // of the time: so much is usual
	idleHalf          = 0.50 // of the time
	hardlyUsed        = 0.01 // of the time of the busiest: a stray kernel of a process that trains on another GPU
	fullMemory        = 0.90 // of what the GPU has
)

// profileRules are about what only a profiler's trace tells.
var profileRules = []Rule{
	{Name: "communicate less", Group: trace.GroupCommunication, Check: func(s *situation) (f Finding, ok bool) {
		where := "among all ranks"
		if s.session.imported() {
			where = "in the traces of all ranks (the one that communicates least)"
		}
		f = Finding{
			Remedy:   "look first who comes late, " + where + "; else communicate less: accumulate gradients, take larger batches or compress gradients (DDP communication hooks)",
			Evidence: "who comes early to an exchange waits in it for the last rank", Share: s.talks(),
		}
		if f.Share > muchCommunication && f.Share < 1 && !s.session.imported() {
			f.Evidence += fmt.Sprintf("; a perfect network, with no rank late, would bring at most +%s", units.Prose.Percent(1/(1-f.Share)-1))
		}
		if s.profile.known() && len(s.profile.GPUs) > 0 { // in a trace of the host alone, it may overlap operators
			f.Evidence = "that time is not hidden behind kernels, and " + f.Evidence
			if g := s.profile.Busiest(); g.Talked > 0 {
				f.Evidence = fmt.Sprintf("kernels that compute hide %s of the communication; %s", units.Prose.Percent(g.Overlap()), f.Evidence)
			}
		}
		return f, f.Share > muchCommunication
	}},
	{Name: "own loading", Check: ownLoading},
	{Name: "pageable copies", Group: trace.GroupCopy, Check: func(s *situation) (f Finding, ok bool) {
		if !s.profile.known() {
			return f, false
		}
		f = Finding{
			Remedy:   "pass pin_memory=True to the DataLoader, and copy by .to(device, non_blocking=True)",
			Evidence: fmt.Sprintf("%s of what was copied to the GPU came from memory that is not page-locked, for which the host waits", units.Prose.Percent(s.profile.Pageable)),
			Share:    s.time.share(trace.GroupCopy),
		}
		return f, s.profile.Pageable >= 0.5 && f.Share >= moderate
	}},
	{Name: "copies that wait", Group: trace.GroupSync, Check: func(s *situation) (f Finding, ok bool) {
		if !s.profile.known() {
			return f, false
		}
		f = Finding{
			Remedy:   "copy to the GPU without a wait: from page-locked memory (pin_memory=True) by .to(device, non_blocking=True); and make small tensors there (device=...), not of Python's numbers",
			Evidence: "the host waits in calls that copy to the GPU, for longer than the copies take",
			Share:    s.profile.ShareOf(s.profile.Sends),
		}
		return f, true
	}},
	{Name: "allocate less", Group: trace.GroupMemory, Check: func(s *situation) (f Finding, ok bool) {
		return Finding{
			Remedy:   "have PyTorch's allocator keep its memory: do without torch.cuda.empty_cache, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_HIP_ALLOC_CONF for AMD), keep shapes alike, or need less memory",
			Evidence: "once all blocks are allocated, a step needs no cudaMalloc or cudaFree (hipMalloc, hipFree): these wait for the GPU, and show that memory runs short or that shapes change",
			Share:    s.time.share(trace.GroupMemory),
		}, true
	}},
	{Name: "record later", Group: trace.GroupInit, Check: func(s *situation) (f Finding, ok bool) {
		return Finding{
			Remedy:   "record later steps (schedule(wait=5, warmup=2, active=6)): what is set up once tells nothing of the training",
			Evidence: "the host makes contexts, loads modules and calls kernels for the first time",
			Share:    s.time.share(trace.GroupInit),
		}, true
	}},
	{Name: "idle half the time", Check: func(s *situation) (f Finding, ok bool) {
		g := s.profile.gpu(func(g *trace.ProfiledGPU) bool {
			return g.Utilisation < idleHalf*(1-s.profile.blind()) && g.Utilisation >= hardlyUsed*s.profile.Busiest().Utilisation
		})
		if g == nil {
			return f, false
		}
		f = Finding{
			Remedy:   "try a larger batch size; the training changes with it",
			Evidence: fmt.Sprintf("kernels run on GPU %d only %s of the time", g.ID, units.Prose.Percent(g.Utilisation)),
			Share:    s.time.share(trace.GroupLaunch), // what larger batches may save
		}
		return f, true
	}},
	{Name: "full memory", Check: func(s *situation) (f Finding, ok bool) {
		g := s.profile.gpu(func(g *trace.ProfiledGPU) bool { return g.Memory > 0 && float64(g.Peak) > fullMemory*float64(g.Memory) })
		if g == nil {
			return f, false
		}
		f = Finding{
			Remedy: "use gradient checkpointing or mixed precision before batches grow",
			Evidence: fmt.Sprintf("GPU %d has %s of memory, of which %s were allocated",
				g.ID, units.Prose.Bytes(g.Memory), units.Prose.Percent(float64(g.Peak)/float64(g.Memory))),
		}
		return f, true
	}},
}

// ownLoading is for a loop that loads its batches by itself in a named range. A trace counts that
// as the host's work, as PyTorch's TensorBoard plugin does.
func ownLoading(s *situation) (f Finding, ok bool) {
	if !s.profile.known() {
		return f, false
	}
	own := &s.profile.Own
	f = Finding{
		Remedy: "load ahead of the loop, in workers of a DataLoader or in a thread with a queue",
		Evidence: fmt.Sprintf("the range %s, by its name the loop's own loading, takes %s of the time while nothing runs on a device; a trace counts it as the host's work, not as waiting for data",
			units.Line(own.Name), units.Prose.Percent(own.Share)),
		Share: own.Share,
	}
	return f, f.Share >= moderate
}

// lacking is for a trace in which the host waits for work that the trace does not have.
func lacking(s *situation) (f Finding, ok bool) {
	if !s.profile.known() {
		return f, false
	}
	share := s.profile.blind()
	f.Evidence = fmt.Sprintf("for %s of the time the host waits for a GPU, long at a time, on which the trace shows nothing then: it lacks what ran, such as another process, or what began before the recording; no advice counts that time", units.Prose.Percent(share))
	return f, share >= moderate
}

// noSteps is for a trace that does not mark steps.
func noSteps(s *situation) (f Finding, ok bool) {
	f.Evidence = "the trace has no steps (ProfilerStep#), so all of it counts as one, its start and end included: give torch.profiler.profile a schedule, and call its step() after each batch"
	return f, s.profile.known() && len(s.profile.Steps) == 1 && s.profile.Steps[0].Name == trace.WholeTrace
}

// noDevice is for a trace in which no GPU did anything.
func noDevice(s *situation) (f Finding, ok bool) {
	f.Evidence = "nothing ran on a GPU in this trace, so the operators of the host count as the work: of a training on a GPU, record ProfilerActivity.CUDA too"
	if s.profile.unseen() {
		f.Evidence = "the trace has calls of a device's runtime, and nothing that ran on the device, so what the host did counts as the work: record the device's activity too (ProfilerActivity.CUDA), and look for warnings of the profiler"
	}
	return f, s.profile.known() && len(s.profile.GPUs) == 0
}
