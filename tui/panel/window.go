package panel

import (
	"math"
	"slices"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
	"dev.gpustall/tui/canvas"
)

// Window holds the numbers of the last steps, which the verdict, the gauges, the breakdown and the
// row of the current configuration show. It is made together with the verdict, so that all show the
// same steps.
type Window struct {
	Tally *trace.Tally // of its steps, of which the steady ones count
	Sum   attribution.Breakdown

	Util, Data, Rate float64 // shares, and samples a second; NaN without steps
	Starved          float64 // the share of the time in which the device's threads could run that they waited for a core
	Mean, P50, P95   int64   // ns a step
	Floor            int64   // ns of compute in the median step, at most P50
	Idle             int64   // ns: half of all idle time of the device lies in steps that are idle for longer
	H2D              float64 // bytes copied a second, while a copy runs
	Top1             float64 // NaN where the device does no arithmetic
}

// newWindow computes the numbers of steps.
func newWindow(steps []trace.Step) Window {
	t := trace.Count(steps)
	w := Window{Tally: t, Sum: attribution.Breakdown{Totals: t.Steady}, Util: math.NaN(), Data: math.NaN(), Rate: math.NaN(), Top1: math.NaN()}
	n := w.Sum.Steps
	if n == 0 {
		return w
	}
	w.Util, w.Data, w.Rate = w.Sum.Utilisation(), w.Sum.DataShare(), w.Sum.SamplesPerSecond()
	w.Mean, w.P50, w.P95 = w.Sum.Active()/n, t.Quantile(0.50), t.Quantile(0.95)
	if w.Sum.Copy > 0 {
		w.H2D = float64(w.Sum.Bytes) / (float64(w.Sum.Copy) / 1e9)
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
		w.Top1 = float64(correct) / float64(samples)
	}
	slices.Sort(busy)
	w.Floor = min(quantile(busy, 0.50), w.P50)
	slices.Sort(idle)
	var all, sum int64
	for _, ns := range idle {
		all += ns
	}
	for _, ns := range idle {
		if sum += ns; 2*sum >= all {
			w.Idle = ns
			break
		}
	}
	return w
}

// Steps returns how many steps count.
func (w *Window) Steps() int64 { return w.Sum.Steps }

// Style returns the colour of the device's utilisation.
func (w *Window) Style() canvas.Style { return utilStyle(w.Util, w.Starved) }

// write writes which steps the window is about.
func (w *Window) write(p *canvas.Pen) {
	n := w.Steps()
	if n == 0 {
		return
	}
	p.Text(canvas.Dim, "the last ").Bytes(canvas.Normal, units.Narrow.AppendTime(p.Buf(), w.Sum.Active())).Text(canvas.Dim, ", ").
		Bytes(canvas.Normal, units.AppendCount(p.Buf(), n)).Text(canvas.Dim, Pick(n == 1, " step ", " steps "))
}

// Worst returns the cause with the largest share, except for pauses, and that share.
func (w *Window) Worst() (trace.Cause, float64) {
	best, share := trace.CauseUnknown, 0.0
	for c := range trace.Cause(trace.NumCauses) {
		if f := w.Sum.Share(c); f > share && c != trace.CausePaused {
			best, share = c, f
		}
	}
	return best, share
}
