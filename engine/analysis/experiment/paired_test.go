package experiment

import (
	"testing"

	"dev.gpustall/engine/trace"
)

// TestWholeEpochs: where the starts of epochs matter, a part has as many starts as epochs, and the start that
// the change itself causes counts for neither side.
func TestWholeEpochs(t *testing.T) {
	const step, start = int64(10e6), int64(100e6)
	epoch := int32(0)
	part := func(p *pairing, each bool) {
		p.open = false
		for i, over := 0, false; !over; i++ {
			st := trace.Step{Samples: 1, Start: int64(i) + 1, End: int64(i) + 1 + step, Epoch: epoch}
			if i%10 == 0 {
				epoch++
				if st.Epoch = epoch; each || i == 0 {
					st.End += start
				}
			}
			over = p.add(&st)
		}
	}
	p := pairing{whole: true, quarter: 5 * (10*step + start)}
	part(&p, true)
	p.part, p.active = 1, 0
	part(&p, false)
	a, b := p.pair.A, p.pair.B
	if a.Active == 0 || b.Active == 0 {
		a, b = p.pair.B, p.pair.A
	}
	if a.Active != a.Steps/10*(10*step+start) || b.Active != b.Steps*step || a.Steps%10 != 0 || b.Steps%10 != 0 || p.pair.LeftOut != 2 {
		t.Errorf("%+v", p.pair)
	}
}
