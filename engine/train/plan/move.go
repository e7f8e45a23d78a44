package plan

import (
	"errors"
	"fmt"
	"slices"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
)

// A plan that does not fit beside the one in force may fit in its place. Then
// everything moves: the parameters to the host and back, and the rest is allocated
// and built again.

// afresh is the reservation of a state and of what lies beside it.
func afresh(state []int, input, activations int, launches []device.Launch) device.Reservation {
	sizes := slices.Concat(state, slices.Repeat([]int{input}, Slots))
	if activations > 0 {
		sizes = append(sizes, activations)
	}
	sizes = append(sizes, slices.Repeat([]int{nn.MetricsSize}, maxPlans*Slots)...)
	return device.Reservation{Sizes: sizes, Launches: launches, Afresh: true}
}

// moved is the reservation of d in place of all there is.
func (p *Plans) moved(d demand) device.Reservation {
	state := append(p.state.Sizes(), p.state.Missing(d.basis.Layout)...)
	return afresh(state, d.input, d.activations, d.launches)
}

// fitsAfresh reports whether d would fit if everything else were given back.
func (p *Plans) fitsAfresh(d demand) bool {
	return p.reserver != nil && p.state != nil && p.reserver.Fits(p.moved(d))
}

// move takes the memory for d in place of all there is. If the driver refuses, what
// there was is taken again, and the old knobs are good.
func (p *Plans) move(d demand) error {
	if err := p.cfg.Quiesce(); err != nil {
		return err
	}
	back := afresh(p.state.Sizes(), p.inputs[0].Size, p.activationBytes(), p.launches)
	want := p.moved(d)
	image, err := p.state.Unload()
	if err != nil {
		return err
	}
	p.freeAll()
	took, err := p.reserver.Reserve(want)
	if err != nil {
		if _, again := p.reserver.Reserve(back); again != nil {
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
	p.rec.Note("info", fmt.Sprintf("device memory: moved from %s to a piece of %s", units.Prose.Bytes(p.reserved), units.Prose.Bytes(took)))
	p.reserved = took
	p.planFor(d)
	return nil
}
