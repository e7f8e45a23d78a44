package advice

import (
	"fmt"
	"strings"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// timeRules are about how the time of steps varies. They apply where no cause of waiting is large.
// Otherwise the rules of that cause give the reason.
var timeRules = []Rule{
	{Name: "long tail", Check: longTail},
	{Name: "drift", Check: drift},
	{Name: "low utilisation", Check: lowUtilisation},
}

// quiet reports whether no group of causes has a share that is large enough for its
// rules.
func (s *situation) quiet() bool {
	for g := range trace.NumGroups {
		if g != trace.GroupPaused && s.time.share(g) >= moderate {
			return false
		}
	}
	return s.host.lostToHost() < moderate && !s.time.ceiling()
}

// longTail is for steps that each take more than twice the median, and together enough time to
// matter.
func longTail(s *situation) (f Finding, ok bool) {
	const few = 50 // steps
	if s.time.plain.N() < few {
		return f, false
	}
	usual := trace.Quantile(0.5, s.time.plain)
	var beyond, all, worst int64
	var long, usualStep trace.Totals
	for st := range s.time.judgedSteps {
		all += st.Active()
		if st.Active() > 2*usual {
			long.Add(st)
			beyond += st.Active() - usual
			worst = max(worst, st.Active())
		} else {
			usualStep.Add(st)
		}
	}
	if long.Steps == 0 || usualStep.Steps == 0 {
		return f, false
	}
	why, ours := longer(&long, &usualStep)
	f = Finding{
		Remedy: "look at these steps in the timeline, and at the batches under blame",
		Evidence: fmt.Sprintf("%s of %s took more than twice the median of %s, the longest %s; %s",
			units.Count(long.Steps), units.Counted(long.Steps+usualStep.Steps, "step", "steps"), units.Prose.Time(usual), units.Prose.Time(worst), why),
		Share: float64(beyond) / float64(max(1, all)),
	}
	// Where the device computes on the host's cores, other users of these cores slowed it
	// down.
	return f, s.quiet() && f.Share >= moderate && !(ours && s.host.device)
}

// longer says what long steps have more of than the others, and whether it is the device's own
// time.
func longer(long, usual *trace.Totals) (text string, device bool) {
	per := func(ns int64, t *trace.Totals) float64 { return float64(ns) / float64(t.Steps) }
	most := per(long.Busy, long) - per(usual.Busy, usual)
	text, device = "in them the device itself computed longer", true
	for c := range trace.Cause(trace.NumCauses) {
		if more := per(long.Stall[c], long) - per(usual.Stall[c], usual); c != trace.CausePaused && more > most {
			most, text, device = more, "in them the device waited for "+c.Info().For, false
		}
	}
	return text, device
}

// A drift is a change of the device's own time for a sample by at least so much, over at least so
// long.
const (
	driftShare = 0.10
	driftOver  = int64(20e9) // ns
)

// drift is for a device that becomes slower at the same work. It leaves out a device on the host's
// own cores. Other processes take those, which rules of the host tell.
func drift(s *situation) (f Finding, ok bool) {
	blocks := s.session.Tally(s.time.segment).Blocks.List()
	third := len(blocks) / 3
	if third < 4 || s.host.device || s.session.to-s.session.from <= 0 {
		return f, false
	}
	early, late := timeASample(blocks[:third]), timeASample(blocks[len(blocks)-third:])
	f = Finding{
		Remedy: "look at the GPU's temperature and clock, and at who else uses it",
		Evidence: fmt.Sprintf("the device computes %s for a sample where it took %s at the start of these settings%s",
			units.Prose.Time(int64(late.mean)), units.Prose.Time(int64(early.mean)), s.time.driftOfOps()),
		Share: s.time.Utilisation() * (1 - early.mean/late.mean),
	}
	return f, early.mean > 0 && late.least > early.most && late.mean >= (1+driftShare)*early.mean && early.active+late.active >= driftOver*2/3
}

// sampleTime is the device's own time for a sample over some blocks, in ns.
type sampleTime struct {
	mean, least, most float64
	active            int64 // ns that they took
}

func timeASample(blocks []trace.Block) (s sampleTime) {
	var busy, samples int64
	for i := range blocks {
		b := &blocks[i]
		if b.Samples == 0 {
			continue
		}
		one := float64(b.Busy) / float64(b.Samples)
		if samples == 0 {
			s.least, s.most = one, one
		}
		s.least, s.most = min(s.least, one), max(s.most, one)
		busy, samples, s.active = busy+b.Busy, samples+b.Samples, s.active+b.Active
	}
	if samples > 0 {
		s.mean = float64(busy) / float64(samples)
	}
	return s
}

// fewBusy is the utilisation below which a device counts as idle although no single cause is large.
const fewBusy = 0.80

// lowUtilisation is for a device that idles for many small reasons.
func lowUtilisation(s *situation) (f Finding, ok bool) {
	var parts []string
	for g := range trace.NumGroups {
		if share := s.time.share(g); g != trace.GroupPaused && share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %s", units.Prose.Percent(share), g.Info().Name))
		}
	}
	f = Finding{
		Remedy:   "no single cause is large: longer steps (batch_size) make each of them smaller",
		Evidence: fmt.Sprintf("the device computes %s of the time, and waits for many reasons: %s", units.Prose.Percent(s.time.Utilisation()), strings.Join(parts, ", ")),
		Share:    1 - s.time.Utilisation(),
	}
	return f, s.quiet() && s.time.Utilisation() < fewBusy && s.time.Active() > 0
}
