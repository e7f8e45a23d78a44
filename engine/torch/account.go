package torch

import (
	"cmp"
	"slices"

	"dev.gpustall/engine/trace"
)

// account says where the time of all steps went. Each instant of a step has one role: the first
// that applies, in the order of trace.Role. PyTorch's TensorBoard plugin divides a step the same way
// (tb_plugin of github.com/pytorch/kineto, which removed it in 2026).
type account struct {
	roles [trace.NumRoles]ranges // no two overlap

	// The activities behind the roles, for lanes. They may overlap.
	copies ranges        // to the device
	back   ranges        // copies to the host
	inside ranges        // within a device's memory
	across ranges        // to another device
	loads  ranges        // the training loop was in the DataLoader
	host   ranges        // the host ran an operator or a call of the runtime
	python ranges        // short stretches from one of these to the next
	syncs  ranges        // such a call waited for the device
	sends  ranges        // such a call copied to the device, and waited
	blind  ranges        // parts of syncs and sends, each longer than longWait, in which no device has anything on record
	allocs ranges        // such a call allocated or freed memory
	inits  ranges        // such a call made a context or loaded a module
	talks  ranges        // processes exchanged data, and no kernel computed
	works  ranges        // the host ran an operator other than communication and its wrappers
	sent   []deviceEvent // copies to the device, by start
}

// longWait is how long, in ns, a call must wait for a device without recorded work until the trace
// counts as incomplete. Shorter waits are the latency of device or host.
const longWait = 10_000_000

// glue is how long, in ns, Python takes at most from one operator to the next, while the script does
// nothing but enqueue. Public traces of models run eagerly have 10 to 100 us there.
const glue = 100_000

func (r *recording) account(steps []window) *account {
	var piles [trace.NumRoles]pile
	var ways [peer + 1]pile
	var calls [prepares + 1]pile
	var ran pile
	var waited []span
	a := new(account)
	for i := range r.device {
		d := &r.device[i]
		role := trace.RoleKernel
		switch {
		case d.kind == kindMemcpy:
			role = trace.RoleMemcpy
			ways[d.way].add(d.span)
		case d.kind == kindMemset:
			role = trace.RoleMemset
		case d.communicates:
			role = trace.RoleCommunication
		}
		piles[role].add(d.span)
		ran.add(d.span)
		if d.bytes > 0 {
			a.sent = append(a.sent, *d)
		}
	}
	slices.SortFunc(a.sent, func(a, b deviceEvent) int { return cmp.Compare(a.start, b.start) })
	for _, c := range r.calls {
		piles[trace.RoleRuntime].add(c.span)
		calls[c.does].add(c.span)
		if (c.does == waits || c.does == sends) && c.length() > longWait {
			waited = append(waited, c.span)
		}
	}
	for _, s := range r.comms.ranges() {
		piles[trace.RoleCommunication].add(s)
	}
	piles[trace.RoleDataLoader], piles[trace.RoleCPU] = r.next, r.ops

	a.talks = merged(slices.Clone(piles[trace.RoleCommunication].spans)).without(merged(slices.Clone(piles[trace.RoleKernel].spans)))
	left := together(steps)
	for role := range trace.RoleOther {
		has := piles[role].ranges()
		if role == trace.RoleDataLoader {
			a.loads = has
		}
		a.roles[role] = left.and(has)
		left = left.without(has)
	}
	a.roles[trace.RoleOther] = left
	a.copies, a.back, a.inside, a.across = ways[toDevice].ranges(), ways[toHost].ranges(), ways[within].ranges(), ways[peer].ranges()
	a.host = merged(slices.Concat(piles[trace.RoleRuntime].spans, piles[trace.RoleCPU].spans))
	for i := 1; i < len(a.host); i++ {
		if s := (span{a.host[i-1].end, a.host[i].start}); s.length() <= glue {
			a.python = append(a.python, s)
		}
	}
	a.sends, a.allocs, a.inits = calls[sends].ranges(), calls[allocates].ranges(), calls[prepares].ranges()
	a.syncs = merged(slices.Concat(calls[waits].spans, a.sends))
	a.blind = slices.DeleteFunc(merged(waited).without(ran.ranges()), func(s span) bool { return s.length() <= longWait })
	a.works = piles[trace.RoleCPU].ranges().without(r.wrapping.ranges())
	return a
}

// pageable returns the share of the bytes sent to devices from memory that was not page-locked.
func (r *recording) pageable() float64 {
	var of, all int64
	for i := range r.device {
		d := &r.device[i]
		if all += d.bytes; d.pageable {
			of += d.bytes
		}
	}
	return float64(of) / float64(max(1, all))
}

// of returns the account of one step.
func (a *account) of(w *window) trace.ProfiledStep {
	s := trace.ProfiledStep{Name: w.name, Length: w.length()}
	for role := range a.roles {
		s.Roles[role] = a.roles[role].within(w.span).length()
	}
	return s
}
