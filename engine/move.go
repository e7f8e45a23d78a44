package engine

import (
	"errors"
	"fmt"
	"slices"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/nn"
	"dev.gpustall/engine/trace"
)

// A plan that does not fit beside the one in force may fit in its place. Then
// everything moves: the parameters to the host and back, the rest is built anew.

// afresh is the reservation of a state and of what lies beside it.
func afresh(state []int, input, activations int, launches []device.Launch) device.Reservation {
	sizes := slices.Concat(state, slices.Repeat([]int{input}, inputSlots))
	if activations > 0 {
		sizes = append(sizes, activations)
	}
	sizes = append(sizes, slices.Repeat([]int{nn.MetricsSize}, maxPlans*inputSlots)...)
	return device.Reservation{Sizes: sizes, Launches: launches, Afresh: true}
}

func (p *planner) moved(d demand) device.Reservation {
	state := append(p.state.Sizes(), p.state.Missing(d.form.typ, d.form.accumulate)...)
	return afresh(state, d.input, d.activations, d.launches)
}

// fitsAfresh reports whether d would fit if everything else were given back.
func (p *planner) fitsAfresh(d demand) bool {
	r, ok := p.e.dev.(device.Reserver)
	return ok && p.state != nil && r.Fits(p.moved(d))
}

// move takes the memory for d in place of all there is. If the driver refuses, what
// there was is taken again, and the old knobs are good.
func (p *planner) move(d demand) error {
	r := p.e.dev.(device.Reserver)
	if err := p.e.finish(); err != nil {
		return err
	}
	activations := 0
	if p.arena != nil {
		activations = p.arena.Size()
	}
	back := afresh(p.state.Sizes(), p.inputs[0].Size, activations, p.launches)
	want := p.moved(d)
	image, err := p.state.Unload()
	if err != nil {
		return err
	}
	p.freeAll()
	took, err := r.Reserve(want)
	if err != nil {
		if _, again := r.Reserve(back); again != nil {
			p.broken = true
			return errors.Join(err, again)
		}
	}
	if lost := p.state.Reload(image); lost != nil {
		p.broken = true
		return errors.Join(err, lost)
	}
	if err != nil {
		return err
	}
	p.e.rec.Note("info", fmt.Sprintf("device memory: moved from %s to a piece of %s", trace.Bytes(p.reserved), trace.Bytes(took)))
	p.reserved = took
	p.plan(d)
	return nil
}
