package advice

import (
	"fmt"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// profile holds what a profiler's trace tells besides its spans. It holds nil where the session is
// not imported.
type profile struct{ *trace.Profile }

func (p *profile) known() bool { return p.Profile != nil }

// notInTrace says what an imported trace's gaps without a cause may be.
func (p *profile) notInTrace(f *Finding) {
	onGPU := p.known() && len(p.GPUs) > 0
	switch {
	case onGPU && p.Busiest().Idle.Kernel > 0 && 2*float64(p.Busiest().Idle.Kernel) >= f.Share*float64(p.Total.Length):
		f.Remedy = "have fewer and longer kernels: torch.compile joins them, CUDA graphs shorten what lies between, larger batches lengthen them"
		f.Evidence = "most of these gaps are between two kernels of which the second was launched in time: what a device needs from one to the next"
	case onGPU && p.Total.Roles[trace.RoleCPU] == 0:
		f.Remedy = "record the host too (ProfilerActivity.CPU)"
		f.Evidence = "the trace has no operator of the host, so what that did in these gaps is not known"
	default:
		f.Remedy = "look at the timeline; with_stack=True has the profiler tell which of the script's own functions run there"
		f.Evidence = "the trace has no operator, call of the runtime, copy or kernel in these gaps: what the script's own Python does, and all that waits outside of PyTorch, is in none"
	}
}

// muchOfIdle is the share of a GPU's idle time from which one range, operator or call of the
// host is named.
const muchOfIdle = 0.4

// meanwhile names the range, operator or call that the host was in for much of the GPU's idle time. It is
// empty where no single one has much of it.
func (p *profile) meanwhile() string {
	if !p.known() || len(p.GPUs) == 0 {
		return ""
	}
	g := p.Busiest()
	for i := range g.Host {
		if h, share := &g.Host[i], float64(g.Host[i].Time)/float64(max(1, g.Idle.All())); share >= muchOfIdle && h.Part != trace.HostFrame {
			return fmt.Sprintf("%s of the GPU's idle time the host is in the %s %s", units.Prose.Percent(share), h.Part, units.Line(h.Name))
		}
	}
	return ""
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
