package advice

import (
	"fmt"
	"slices"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// profile holds what a profiler's trace tells besides its spans. It holds nil where the session is
// not imported.
type profile struct{ *trace.Profile }

func (p *profile) known() bool { return p.Profile != nil }

// blind is the share of the time of which the trace lacks what the GPU was at.
func (p *profile) blind() float64 { return p.ShareOf(p.Blind) }

// gap is what most of a trace's gaps without a cause are.
type gap uint8

const (
	gapNoDevice gap = iota // no GPU did anything
	gapBlind               // what the GPU was at is missing
	gapKernels             // between two kernels, of which the second was launched in time
	gapNoHost              // the host is not recorded
	gapScript              // in one function of the script
	gapUnknown
)

// gaps tells what most of the gaps without a cause are, which have that share of the time.
func (p *profile) gaps(share float64) gap {
	switch h, _ := p.during(trace.HostFrame); {
	case !p.known() || len(p.GPUs) == 0:
		return gapNoDevice
	case p.Blind > 0 && 2*p.blind() >= share:
		return gapBlind
	case p.Busiest().Idle.Kernel > 0 && 2*p.ShareOf(p.Busiest().Idle.Kernel) >= share:
		return gapKernels
	case p.Total.Roles[trace.RoleCPU] == 0:
		return gapNoHost
	case h != nil:
		return gapScript
	}
	return gapUnknown
}

// notInTrace says what an imported trace's gaps without a cause may be.
func (p *profile) notInTrace(f *Finding) {
	f.Remedy, f.Evidence = withStack, noneOnHost
	switch p.gaps(f.Share) {
	case gapBlind:
		f.Remedy = "have the trace show what the GPU was at: another process, or work that began before the recording or that the profiler left out (of CUDA graphs, say)"
		f.Evidence = "the host waits for the GPU, long at a time, and the trace shows nothing on it"
	case gapKernels:
		f.Remedy = "have fewer and longer kernels: torch.compile joins them, CUDA graphs shorten what lies between, larger batches lengthen them"
		f.Evidence = "most of these gaps are between two kernels of which the second was launched in time: what a device needs from one to the next"
	case gapNoHost:
		f.Remedy = "record the host too (ProfilerActivity.CPU)"
		f.Evidence = "the trace has no operator of the host, so what that did in these gaps is not known"
	case gapScript:
		h, share := p.during(trace.HostFrame)
		f.Remedy = fmt.Sprintf("look at the Python function %s, which takes %s of the GPU's idle time", units.Line(h.Name), units.Prose.Percent(share))
		f.Evidence = "in these gaps it enqueues nothing: " + noneOnHost
	}
}

// What is said of gaps in which a trace has nothing.
const (
	withStack  = "look at the timeline; with_stack=True has the profiler tell which of the script's own functions run there"
	noneOnHost = "the trace has no operator, call of the runtime, copy or kernel in these gaps: what the script's own Python does, and all that waits outside of PyTorch, is in none"
)

// muchOfIdle is the share of a GPU's idle time from which one range, operator, call or function of the
// host is named.
const muchOfIdle = 0.4

// during returns the first thing of these parts that the host was in for much of the GPU's idle time, and
// its share. It is nil where no single one has much of it.
func (p *profile) during(parts ...trace.HostPart) (*trace.HostTime, float64) {
	if !p.known() || len(p.GPUs) == 0 {
		return nil, 0
	}
	g := p.Busiest()
	for i := range g.Host {
		if h, share := &g.Host[i], float64(g.Host[i].Time)/float64(max(1, g.Idle.All())); share >= muchOfIdle && slices.Contains(parts, h.Part) {
			return h, share
		}
	}
	return nil, 0
}

// meanwhile names what the host was in for much of the GPU's idle time. Of a loader it is the script's own
// function, and of gaps that have no cause too, where the trace has it.
func (p *profile) meanwhile(v *Verdict) string {
	h, share := p.during(trace.HostFrame)
	if v.Dominant != trace.CauseDataLoader && (h == nil || v.Group != trace.GroupUnknown) {
		h, share = p.during(trace.HostRange, trace.HostOperator, trace.HostCall)
	}
	if h == nil {
		return ""
	}
	return fmt.Sprintf("%s of the GPU's idle time the host is in the %s %s", units.Prose.Percent(share), h.Part, units.Line(h.Name))
}

// unseen reports whether the trace has calls to a device, but nothing of what the device did.
func (p *profile) unseen() bool {
	return p.known() && len(p.GPUs) == 0 && p.Total.Roles[trace.RoleRuntime] > 0
}

// gpu returns the trace's first GPU that a condition holds of; nil where there is none.
func (p *profile) gpu(holds func(*trace.ProfiledGPU) bool) *trace.ProfiledGPU {
	if !p.known() {
		return nil
	}
	for i := range p.GPUs {
		if g := &p.GPUs[i]; holds(g) {
			return g
		}
	}
	return nil
}
