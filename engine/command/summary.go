package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/stall"
	"dev.gpustall/engine/trace"
)

// number is a float that JSON prints as null where there is none.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.6g", float64(n)), nil
}

// seconds converts nanoseconds.
func seconds(ns int64) number { return number(float64(ns) / 1e9) }

// progress is where a run is, over the last seconds.
type progress struct {
	Type              string   `json:"type"`
	T                 number   `json:"t_s"`
	Epoch             int32    `json:"epoch"`
	Epochs            int      `json:"epochs,omitempty"`
	Step              int      `json:"step"`
	Steps             int64    `json:"steps_total,omitempty"`
	SamplesPerSecond  number   `json:"samples_per_s"`
	DeviceUtilization number   `json:"device_utilization"`
	DataShare         number   `json:"data_share"`
	Loss              number   `json:"loss"`
	Top1              number   `json:"top1"`
	ETA               number   `json:"eta_s"`
	SinceStep         number   `json:"since_step_s"` // since the last step ended
	Late              bool     `json:"-"`            // and that is long for these steps
	Diverged          *int32   `json:"diverged"`     // the first step whose loss is not a number
	Labels            []string `json:"labels,omitempty"`
}

// recent is how far back the progress line looks.
const recent = 5 * time.Second

// late is how long no step may end before the line says so: until one does, the
// rates are those of the steps before.
const late = 2 * time.Second

func measure(s *trace.Snapshot, o *options) progress {
	steps := s.Steps
	from := len(steps)
	for from > 0 && steps[from-1].End > s.Now-int64(recent) {
		from--
	}
	if from == len(steps) && from > 0 {
		from-- // steps that take longer than that, or a pause
	}
	window := steps[from:]
	b := stall.Sum(window)
	g := progress{
		T: seconds(s.Now), Epochs: o.epochs, Step: len(steps), ETA: number(math.NaN()),
		SamplesPerSecond: number(math.NaN()), DeviceUtilization: number(math.NaN()), DataShare: number(math.NaN()),
		Loss: number(math.NaN()), Top1: number(math.NaN()), SinceStep: number(math.NaN()), Labels: labels(s),
	}
	if len(window) == 0 {
		return g
	}
	g.Diverged = brokeAt(steps)
	last := &window[len(window)-1]
	g.Epoch = last.Epoch
	since := max(0, s.Now-last.End)
	g.SinceStep = seconds(since)
	g.Late = since > int64(late) && since > 2*(last.End-last.Start)
	g.SamplesPerSecond = number(b.SamplesPerSecond())
	g.DeviceUtilization, g.DataShare = number(b.Utilisation()), number(b.DataShare())
	loss, top1 := learning(window)
	g.Loss, g.Top1 = number(loss), number(top1)
	left := math.Inf(1)
	if o.epochs > 0 {
		left = samplesLeft(s, o.epochs)
	}
	if o.steps > 0 {
		g.Steps = int64(o.steps)
		left = min(left, float64(o.steps-len(steps))*float64(b.Samples)/float64(len(window)))
	}
	g.ETA = number(max(0, left) / b.SamplesPerSecond())
	return g
}

// samplesLeft is what epochs still have to deliver under the knobs in force:
// drop_last leaves out what does not fill a batch.
func samplesLeft(s *trace.Snapshot, epochs int) float64 {
	each := s.Meta.Samples
	if n := len(s.Segments); n > 0 && knob(s.Segments[n-1].Knobs, "drop_last") == "on" {
		if batch, err := strconv.ParseInt(knob(s.Segments[n-1].Knobs, "batch_size"), 10, 64); err == nil && batch > 0 {
			each -= each % batch
		}
	}
	last := s.Steps[len(s.Steps)-1]
	var done int64 // of the epoch under way
	for i := len(s.Steps) - 1; i >= 0 && s.Steps[i].Epoch == last.Epoch; i-- {
		done += int64(s.Steps[i].Samples)
	}
	if last.Flags&trace.FlagLastOfEpoch != 0 {
		done = each
	}
	return float64(max(0, each-done) + int64(epochs-1-int(last.Epoch))*each)
}

func knob(knobs []trace.Knob, name string) string {
	for _, k := range knobs {
		if k.Name == name {
			return k.Value
		}
	}
	return ""
}

// learning is the mean loss and top-1 share over steps; NaN without arithmetic.
func learning(steps []trace.Step) (loss, top1 float64) {
	var n, hits, sum float64
	for i := range steps {
		if s := &steps[i]; s.Correct >= 0 {
			n += float64(s.Samples)
			hits += float64(s.Correct)
			sum += float64(s.Loss) * float64(s.Samples)
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	return sum / n, hits / n
}

// brokeAt is the first step whose loss is not a number, nil when there is none.
func brokeAt(steps []trace.Step) *int32 {
	if step, n := trace.Diverged(steps); n > 0 {
		return &step
	}
	return nil
}

// labels are what must never be forgotten about the numbers.
func labels(s *trace.Snapshot) []string {
	var l []string
	if s.Meta.Emulated {
		l = append(l, "emulated")
	}
	if s.Meta.Synthetic {
		l = append(l, "synthetic")
	}
	var flags uint16
	for i := range s.Steps {
		flags |= s.Steps[i].Flags
	}
	for i := range s.Segments { // also before the first step
		for _, k := range s.Segments[i].Knobs {
			switch {
			case strings.HasPrefix(k.Name, "inject_") && k.Value != "off":
				flags |= trace.FlagInjected
			case k.Name == "ceiling" && k.Value == "on":
				flags |= trace.FlagCeiling
			}
		}
	}
	if flags&trace.FlagInjected != 0 {
		l = append(l, "injected")
	}
	if flags&trace.FlagCeiling != 0 {
		l = append(l, "ceiling")
	}
	return l
}

func (g progress) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  epoch %d", clock(float64(g.T)), g.Epoch+1)
	if g.Epochs > 0 {
		fmt.Fprintf(&b, "/%d", g.Epochs)
	}
	fmt.Fprintf(&b, "  step %d", g.Step)
	if g.Steps > 0 {
		fmt.Fprintf(&b, "/%d", g.Steps)
	}
	if math.IsNaN(float64(g.SamplesPerSecond)) {
		b.WriteString("  waiting for the first step")
	} else {
		fmt.Fprintf(&b, "  %.4g samples/s  util %s  data %s  loss %s  top1 %s",
			float64(g.SamplesPerSecond), percent(float64(g.DeviceUtilization)), percent(float64(g.DataShare)),
			lossText(g.Loss, g.Top1), percent(float64(g.Top1)))
	}
	if g.Diverged != nil {
		fmt.Fprintf(&b, "  (diverged at step %d)", *g.Diverged)
	}
	if g.Late {
		fmt.Fprintf(&b, "  (no step for %.0f s)", float64(g.SinceStep))
	}
	if eta := float64(g.ETA); !math.IsNaN(eta) && !math.IsInf(eta, 0) {
		fmt.Fprintf(&b, "  ETA %s", clock(eta))
	}
	if len(g.Labels) > 0 {
		fmt.Fprintf(&b, "  [%s]", strings.Join(g.Labels, ", "))
	}
	return b.String()
}

// summary is the whole run in one object.
type summary struct {
	Type              string            `json:"type"`
	Session           string            `json:"session"`
	Status            string            `json:"status"`
	Error             string            `json:"error,omitempty"`
	Failure           *failure          `json:"failure,omitempty"` // the error, taken apart
	Device            string            `json:"device"`
	DeviceKind        string            `json:"device_kind"`
	Model             string            `json:"model"`
	Dataset           string            `json:"dataset"`
	Emulated          bool              `json:"emulated"`
	Synthetic         bool              `json:"synthetic"`
	Injected          bool              `json:"injected"`
	Ceiling           bool              `json:"ceiling"`
	Seed              int64             `json:"seed"`
	Steps             int               `json:"steps"`
	Epochs            int               `json:"epochs"`
	Samples           int64             `json:"samples"`
	Wall              number            `json:"wall_s"`
	Busy              number            `json:"busy_s"`
	SamplesPerSecond  number            `json:"samples_per_s"`
	DeviceUtilization number            `json:"device_utilization"`
	AU                number            `json:"accelerator_utilization"`
	DataWait          number            `json:"data_wait_s"`
	Load              number            `json:"load_s"`
	Train             number            `json:"train_s"`
	Loss              number            `json:"loss"`
	Top1              number            `json:"top1"`
	Diverged          *int32            `json:"diverged"` // the first step whose loss is not a number; null when there is none
	Stalls            map[string]number `json:"stalls"`
	Verdict           string            `json:"verdict"`
	Dominant          string            `json:"dominant_cause"`
	EpochTimes        []epochSummary    `json:"epoch_times"`
	Segments          int               `json:"segments"`
	Knobs             map[string]string `json:"knobs"`
	DroppedSpans      int64             `json:"dropped_spans"`
	Unsaved           *unsaved          `json:"unsaved,omitempty"` // what the session's file lacks
	PeakBytes         int64             `json:"peak_memory_bytes"`
	Planned           planned           `json:"planned_memory"`
	Autotune          []tunedKernel     `json:"autotune,omitempty"`
	CopyIn            number            `json:"h2d_s"`                // copies to the device, hidden behind compute or not
	CopyInShare       number            `json:"h2d_share"`            // of the wall time
	Ops               []opSummary       `json:"ops"`                  // of the last segment that has any
	SegmentTable      []segmentSummary  `json:"segment_table"`        // each with its own ops
	LossScale         *lossScale        `json:"loss_scale,omitempty"` // fp16
	Gauges            map[string]gauge  `json:"gauges"`
	Labels            []string          `json:"labels,omitempty"`
	verdict           stall.Verdict
}

// unsaved is what could not be written to the session's file.
type unsaved struct {
	Steps int64  `json:"steps"`
	Spans int64  `json:"spans"`
	From  number `json:"from_s"`
	To    number `json:"to_s"`
}

type epochSummary struct {
	Epoch    int32  `json:"epoch"`
	Total    number `json:"total_s"`
	Load     number `json:"load_s"`
	Train    number `json:"train_s"`
	Wait     number `json:"data_wait_s"`
	Loss     number `json:"loss"`
	Top1     number `json:"top1"`
	Complete bool   `json:"complete"`
	Injected int    `json:"injected_steps"` // of the epoch's
	Ceiling  int    `json:"ceiling_steps"`
}

func summarise(r *run, o *options, cause error) summary {
	s := r.session.Snapshot(0, 0)
	b := stall.Sum(s.Steps)
	v := stall.Judge(s, s.Steps)
	out := summary{
		Type: "summary", Session: r.file, Status: s.Outcome.Status,
		Device: s.Meta.Device, DeviceKind: s.Meta.DeviceKind, Model: s.Meta.Model, Dataset: s.Meta.Dataset,
		Emulated: s.Meta.Emulated, Synthetic: s.Meta.Synthetic, Seed: o.seed,
		Steps: len(s.Steps), Samples: b.Samples, Wall: seconds(b.Wall), Busy: seconds(b.Busy),
		SamplesPerSecond: number(b.SamplesPerSecond()), DeviceUtilization: number(b.Utilisation()),
		AU: number(math.NaN()), DataWait: seconds(b.Wait), Load: seconds(b.Load), Train: seconds(b.Busy),
		Stalls: map[string]number{}, Verdict: v.Class, Dominant: dominant(v), Segments: len(s.Segments),
		Knobs: map[string]string{}, PeakBytes: s.PeakBytes(), Labels: labels(s), verdict: v,
		CopyIn: seconds(b.Copy), CopyInShare: number(float64(b.Copy) / float64(b.Wall)),
		Planned: planMemory(s.Outcome.Planned), Autotune: tunedKernels(r.engine.Tuned()),
		LossScale: scaleSummary(s), Gauges: gaugeTable(s), EpochTimes: []epochSummary{},
	}
	out.SegmentTable, out.Ops = opTables(s)
	out.Diverged = brokeAt(s.Steps)
	if u := s.Outcome.Unsaved; u.Any() {
		out.Unsaved = &unsaved{u.Steps, u.Spans, seconds(u.From), seconds(u.To)}
	}
	if cause != nil {
		f := explain(cause)
		out.Error, out.Failure = cause.Error(), &f
	}
	if au, ok := stall.AU(s.Steps); ok {
		out.AU = number(au)
	}
	for c, ns := range b.Stall {
		out.Stalls[trace.Cause(c).String()] = seconds(ns)
	}
	loss, top1 := math.NaN(), math.NaN()
	for _, e := range stall.Epochs(s) {
		out.EpochTimes = append(out.EpochTimes, epochSummary{
			e.Epoch, seconds(e.Total), seconds(e.Load), seconds(e.Train), seconds(e.Wait),
			number(e.Loss), number(e.Top1), e.Complete, e.Injected, e.Ceiling,
		})
		loss, top1 = e.Loss, e.Top1
	}
	out.Epochs, out.Loss, out.Top1 = len(out.EpochTimes), number(loss), number(top1)
	if n := len(s.Segments); n > 0 {
		for _, k := range s.Segments[n-1].Knobs {
			out.Knobs[k.Name] = k.Value
		}
	}
	for _, l := range out.Labels {
		out.Injected = out.Injected || l == "injected"
		out.Ceiling = out.Ceiling || l == "ceiling"
	}
	for _, d := range s.Outcome.Drops {
		out.DroppedSpans += d
	}
	return out
}

// text is the summary for people.
func (s summary) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s on %s, %s", s.Status, s.Model, s.Device, s.Dataset)
	if len(s.Labels) > 0 {
		fmt.Fprintf(&b, "  [%s]", strings.Join(s.Labels, ", "))
	}
	fmt.Fprintf(&b, "\n%d steps, %d samples in %.3g s: %.4g samples/s, device utilisation %s, loss %s, top-1 %s\n",
		s.Steps, s.Samples, float64(s.Wall), float64(s.SamplesPerSecond), percent(float64(s.DeviceUtilization)),
		lossText(s.Loss, s.Top1), percent(float64(s.Top1)))
	if s.Diverged != nil {
		fmt.Fprintf(&b, "diverged the loss is not a number since step %d: lower --lr; what the device waited for was measured all the same\n", *s.Diverged)
	}
	if s.verdict.Text != "" {
		fmt.Fprintf(&b, "verdict  %s\n", s.verdict.Text)
	}
	if s.verdict.Advice != "" {
		fmt.Fprintf(&b, "advice   %s\n", s.verdict.Advice)
	}
	if text := tunedText(s.Autotune); text != "" {
		fmt.Fprintf(&b, "autotune %s\n", text)
	}
	if s.DroppedSpans > 0 {
		fmt.Fprintf(&b, "dropped  %d spans: the shares above may be off\n", s.DroppedSpans)
	}
	if u := s.Unsaved; u != nil {
		fmt.Fprintf(&b, "unsaved  %d steps and %d spans, of %.3g s to %.3g s after the start, are not in the session's file\n",
			u.Steps, u.Spans, float64(u.From), float64(u.To))
	}
	return b.String()
}

// percent prints a share of 0 to 1; "-" where there is none.
func percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}

// lossText is "-" where nothing was computed, which top1 tells from a loss that broke.
func lossText(loss, top1 number) string {
	if math.IsNaN(float64(loss)) && math.IsNaN(float64(top1)) {
		return "-"
	}
	return fmt.Sprintf("%.3f", float64(loss))
}

// clock prints seconds as h:mm:ss or m:ss.
func clock(s float64) string {
	n := int64(s + 0.5)
	if n >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
	}
	return fmt.Sprintf("%d:%02d", n/60, n%60)
}
