package torch

import (
	"cmp"
	"slices"

	"dev.gpustall/engine/trace"
)

// account is where the time of all steps went. Every instant of a step has one role:
// the first that applies, in the order of trace.Role, as PyTorch's TensorBoard plugin
// has it (tb_plugin of github.com/pytorch/kineto, until it was removed in 2026).
type account struct {
	roles [trace.NumRoles]ranges // what each has of the steps; no two overlap

	// What lies under it, for lanes: it may overlap.
	copies, loads ranges
	host          ranges        // it ran an operator, or was in a call of the runtime
	syncs         ranges        // it waited for the device in one
	copying       ranges        // it was in one that copies
	sent          []deviceEvent // copies to the device, by start
}

func (r *recording) account(steps []window) *account {
	var piles [trace.NumRoles]pile
	a := new(account)
	for i := range r.device {
		d := &r.device[i]
		role := trace.RoleKernel
		switch {
		case d.kind == kindMemcpy:
			role = trace.RoleMemcpy
		case d.kind == kindMemset:
			role = trace.RoleMemset
		case d.communicates:
			role = trace.RoleCommunication
		}
		piles[role].add(d.span)
		if d.bytes > 0 {
			a.sent = append(a.sent, *d)
		}
	}
	slices.SortFunc(a.sent, func(a, b deviceEvent) int { return cmp.Compare(a.start, b.start) })
	var syncs, copying pile
	for _, c := range r.calls {
		piles[trace.RoleRuntime].add(c.span)
		switch c.does {
		case waits:
			syncs.add(c.span)
		case copies:
			copying.add(c.span)
		}
	}
	for _, s := range r.comms.ranges() {
		piles[trace.RoleCommunication].add(s)
	}
	piles[trace.RoleDataLoader], piles[trace.RoleCPU] = r.next, r.ops

	var all []span
	for i := range steps {
		all = append(all, steps[i].span)
	}
	left := merged(all)
	for role := range trace.RoleOther {
		has := piles[role].ranges()
		switch role {
		case trace.RoleMemcpy:
			a.copies = has
		case trace.RoleDataLoader:
			a.loads = has
		}
		a.roles[role] = left.and(has)
		left = left.without(has)
	}
	a.roles[trace.RoleOther] = left
	a.host = merged(slices.Concat(piles[trace.RoleRuntime].spans, piles[trace.RoleCPU].spans))
	a.syncs, a.copying = syncs.ranges(), copying.ranges()
	return a
}

// of is the account of one step.
func (a *account) of(w *window) trace.ProfiledStep {
	s := trace.ProfiledStep{Name: w.name, Length: w.length()}
	for role := range a.roles {
		s.Roles[role] = a.roles[role].within(w.span).length()
	}
	return s
}
