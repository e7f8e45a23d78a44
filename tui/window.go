package tui

import (
	"math"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// window is the steps that verdict, gauges, breakdown and the row of the current
// configuration speak of, and their numbers. It is made with the verdict, so that
// they are the same steps whenever one looks.
type window struct {
	tally *trace.Tally // of its steps; the steady ones are what counts
	sum   attribution.Breakdown

	util, data, rate float64 // shares, and samples a second; NaN without steps
	starved          float64 // share of the time in which the device's threads could run: without a core
	mean, p50, p95   int64   // ns a step
	floor            int64   // ns of compute in the median step, which is never over p50
	idle             int64   // ns: half of the time that the device was idle, it was so for longer in one step
	h2d              float64 // bytes a second of copy time
	top1             float64 // NaN when the device does no arithmetic
}

// newWindow works out the numbers of steps.
func newWindow(steps []trace.Step) window {
	t := trace.Count(steps)
	w := window{tally: t, sum: attribution.Breakdown{Totals: t.Steady}, util: math.NaN(), data: math.NaN(), rate: math.NaN(), top1: math.NaN()}
	n := w.sum.Steps
	if n == 0 {
		return w
	}
	w.util, w.data, w.rate = w.sum.Utilisation(), w.sum.DataShare(), w.sum.SamplesPerSecond()
	w.mean, w.p50, w.p95 = w.sum.Active()/n, t.Quantile(0.50), t.Quantile(0.95)
	if w.sum.Copy > 0 {
		w.h2d = float64(w.sum.Bytes) / (float64(w.sum.Copy) / 1e9)
	}
	var correct, samples int64
	busy, idle := make([]int64, 0, len(steps)), make([]int64, 0, len(steps))
	for i := range steps {
		st := &steps[i]
		busy, idle = append(busy, st.Busy), append(idle, st.Active()-st.Busy)
		if st.Correct >= 0 {
			correct += int64(st.Correct)
			samples += int64(st.Samples)
		}
	}
	if samples > 0 {
		w.top1 = float64(correct) / float64(samples)
	}
	slices.Sort(busy)
	w.floor = min(quantile(busy, 0.50), w.p50)
	slices.Sort(idle)
	var all, sum int64
	for _, ns := range idle {
		all += ns
	}
	for _, ns := range idle {
		if sum += ns; 2*sum >= all {
			w.idle = ns
			break
		}
	}
	return w
}

// steps is how many count.
func (w *window) steps() int64 { return w.sum.Steps }

// style is the colour of the device's utilisation.
func (w *window) style() canvas.Style { return utilStyle(w.util, w.starved) }

// write says which steps it is.
func (w *window) write(p *canvas.Pen) {
	n := w.steps()
	if n == 0 {
		return
	}
	p.Text(canvas.Dim, "the last ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), w.sum.Active())).Text(canvas.Dim, ", ").
		Bytes(canvas.Normal, units.AppendCount(p.Buf(), n)).Text(canvas.Dim, pick(n == 1, " step ", " steps "))
}

// worst is the cause with the largest share, pauses aside.
func (w *window) worst() (trace.Cause, float64) {
	best, share := trace.CauseUnknown, 0.0
	for c := range trace.Cause(trace.NumCauses) {
		if f := w.sum.Share(c); f > share && c != trace.CausePaused {
			best, share = c, f
		}
	}
	return best, share
}
