package command

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
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

// ns is a number of seconds in nanoseconds.
func (n number) ns() int64 { return int64(math.Round(float64(n) * 1e9)) }

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
func brokeAt(s *trace.Snapshot) *int32 {
	if s.Diverged == 0 {
		return nil
	}
	step := s.DivergedAt
	return &step
}

// summary is the whole run in one object.
type summary struct {
	Type              string              `json:"type"`
	Session           string              `json:"session"`
	Status            string              `json:"status"`
	Error             string              `json:"error,omitempty"`
	Failure           *errs.Error         `json:"failure,omitempty"` // the error, taken apart
	Device            string              `json:"device"`
	DeviceKind        string              `json:"device_kind"`
	Model             string              `json:"model"`
	Dataset           string              `json:"dataset"`
	Emulated          bool                `json:"emulated"`
	Synthetic         bool                `json:"synthetic"`
	Injected          bool                `json:"injected"`
	Ceiling           bool                `json:"ceiling"`
	Seed              int64               `json:"seed"`
	Steps             int                 `json:"steps"`
	Epochs            int                 `json:"epochs"`
	Samples           int64               `json:"samples"`
	Skipped           int64               `json:"samples_skipped,omitempty"` // by on_error=skip
	SkippedSamples    []string            `json:"skipped_samples,omitempty"` // why, each once, at most 100
	StoreRequests     int64               `json:"store_requests,omitempty"`  // to object stores, attempts included
	StoreRetries      int64               `json:"store_retries,omitempty"`   // of those: made again
	Wall              number              `json:"wall_s"`
	Busy              number              `json:"busy_s"`
	SamplesPerSecond  number              `json:"samples_per_s"`
	DeviceUtilization number              `json:"device_utilization"`
	AU                number              `json:"accelerator_utilization"`
	DataWait          number              `json:"data_wait_s"`
	Load              number              `json:"load_s"`
	Train             number              `json:"train_s"`
	Loss              number              `json:"loss"`
	Top1              number              `json:"top1"`
	Diverged          *int32              `json:"diverged"` // the first step whose loss is not a number; null when there is none
	Stalls            map[string]number   `json:"stalls"`
	WorkerTime        map[string]split    `json:"worker_time,omitempty"` // of the batches, and by phase of those in which phases were measured
	Verdict           string              `json:"verdict"`
	VerdictText       string              `json:"verdict_text"`              // as report and screen have it
	Judged            string              `json:"verdict_segment,omitempty"` // whose verdict and advice it is: that of the settings to keep
	Dominant          string              `json:"dominant_cause"`
	Advice            string              `json:"advice"`
	Knob              string              `json:"knob"`  // that the advice names, and ...
	Value             string              `json:"value"` // ... its value; empty when no knob helps
	EpochTimes        []epochSummary      `json:"epoch_times"`
	Segments          int                 `json:"segments"`
	Knobs             map[string]string   `json:"knobs"`
	DroppedSpans      int64               `json:"dropped_spans"`
	Unsaved           *unsaved            `json:"unsaved,omitempty"` // what the session's file lacks
	PeakBytes         int64               `json:"peak_memory_bytes"`
	Planned           planned             `json:"planned_memory"`
	HostPeak          int64               `json:"peak_host_memory_bytes,omitempty"` // resident
	HostPlanned       *hostPlanned        `json:"planned_host_memory,omitempty"`
	Autotune          []tunedKernel       `json:"autotune,omitempty"`
	CopyIn            number              `json:"h2d_s"`                // copies to the device, hidden behind compute or not
	CopyInShare       number              `json:"h2d_share"`            // of the wall time
	Ops               []opSummary         `json:"ops"`                  // of the last segment that has any
	SegmentTable      []segmentSummary    `json:"segment_table"`        // each with its own ops
	LossScale         *lossScale          `json:"loss_scale,omitempty"` // fp16
	Gauges            map[string]gauge    `json:"gauges"`
	Ranks             []rankSummary       `json:"ranks,omitempty"`        // of a distributed PyTorch training, on this machine
	Script            []partSummary       `json:"step_parts,omitempty"`   // what a step of a PyTorch script is made of, on the host
	CeilingGain       *changeSummary      `json:"ceiling_gain,omitempty"` // throughput that fixing data buys at most, as a ratio
	Experiments       []experimentSummary `json:"experiments,omitempty"`
	Labels            []string            `json:"labels,omitempty"`
	Profile           *profileSummary     `json:"profile,omitempty"`
	Notes             []string            `json:"notes,omitempty"` // what a trace that was imported lacks
	diagnosed
	forecast
	advice   advice.Advice
	imported bool // from another profiler's trace
	foreign  bool // a training of the user's own: no loss is on record
}

// split is what worker time went to, and what that makes it.
type split struct {
	Core    number `json:"core_s"`
	Waiting number `json:"waiting_s"` // for a core
	Blocked number `json:"blocked_s"`
	Bound   string `json:"bound"`
}

// workerTime is what was measured of workers' time: "batch" and the phases.
func workerTime(w *trace.Work) map[string]split {
	out := map[string]split{}
	add := func(name string, s trace.Split) {
		if s.Total() > 0 {
			out[name] = split{seconds(s.Core), seconds(s.Waiting), seconds(s.Blocked), s.Bound().Info().Name}
		}
	}
	add("batch", w.Batch)
	for k := trace.KindRead; k.IsPhase(); k++ {
		add(k.String(), *w.Phases.Of(k))
	}
	return out
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

	*testSummary // of the evaluation after it
}

// testSummary is what an evaluation on the test split found.
type testSummary struct {
	Loss    number `json:"test_loss"`
	Top1    number `json:"test_top1"`
	Samples int64  `json:"test_samples"`
	Took    number `json:"evaluate_s"` // in no share, and not in total_s
}

func testOf(s *trace.Snapshot, epoch int32) *testSummary {
	e, ok := s.EvaluationOf(epoch)
	if !ok {
		return nil
	}
	return &testSummary{number(e.Loss), number(e.Top1), e.Samples, seconds(e.Took)}
}

// summarise is what a run prints of itself: its session, the variants its kernels
// were tuned to, and what ended it.
func summarise(r *run, cause error) summary {
	out := summaryOf(all(r.session), r.file)
	if r.engine != nil {
		out.Autotune = tunedKernels(r.engine.Tuned())
	}
	if cause != nil {
		out.Error, out.Failure = cause.Error(), explain(cause)
	}
	return out
}

// summaryOf is what a session says of its run; file names it.
func summaryOf(s *trace.Snapshot, file string) summary {
	b := attribution.Breakdown{Totals: s.Total}
	rows := attribution.Segments(s)
	a, at := advice.Overall(s, rows)
	out := summary{
		Type: "summary", Session: file, Status: s.Outcome.Status,
		Device: s.Meta.Device, DeviceKind: s.Meta.DeviceKind, Model: s.Meta.Model, Dataset: s.Meta.Dataset,
		Emulated: s.Meta.Emulated, Synthetic: s.Meta.Synthetic, Seed: s.Meta.Seed,
		Steps: int(b.Steps), Samples: b.Samples, Skipped: s.Skipped(), StoreRequests: int64(s.Latest(trace.GaugeStoreRequests)), StoreRetries: int64(s.Latest(trace.GaugeStoreRetries)), Wall: seconds(b.Wall), Busy: seconds(b.Busy),
		SamplesPerSecond: number(b.SamplesPerSecond()), DeviceUtilization: number(b.Utilisation()),
		AU: number(math.NaN()), DataWait: seconds(b.Wait), Load: seconds(b.Load), Train: seconds(b.Busy),
		Stalls: map[string]number{}, Verdict: a.Verdict.Class, VerdictText: a.Verdict.Text, Dominant: dominant(&a.Verdict), Advice: a.Text(), Knob: a.First().Knob, Value: a.First().Value, Segments: len(s.Segments),
		Knobs: map[string]string{}, PeakBytes: s.PeakBytes(), advice: a,
		CopyIn: seconds(b.Copy), CopyInShare: number(float64(b.Copy) / float64(b.Wall)),
		Planned: planMemory(s.Outcome.Planned), LossScale: scaleSummary(s), Gauges: gaugeTable(s), EpochTimes: []epochSummary{},
	}
	first := a.First()
	_, feed := a.Feed(s.Meta.Device)
	out.forecast = forecast{summarisePrediction(first.Predicted), summariseOutcomes(s, rows), feed}
	out.HostPeak, out.HostPlanned = s.Outcome.HostPeak, planHostMemory(s.Outcome.HostPlanned)
	for _, n := range s.SkippedNotes() {
		out.SkippedSamples = append(out.SkippedSamples, n.Text)
	}
	out.SegmentTable, out.Ops = opTables(s, rows)
	if len(rows) > 0 {
		out.Judged = rows[at.Kept].Name()
	}
	out.Diverged = brokeAt(s)
	if u := s.Outcome.Unsaved; u.Any() {
		out.Unsaved = &unsaved{u.Steps, u.Spans, seconds(u.From), seconds(u.To)}
	}
	if out.Steps == 0 { // not measured, rather than 0
		out.SamplesPerSecond, out.DeviceUtilization, out.CopyInShare = number(math.NaN()), number(math.NaN()), number(math.NaN())
	}
	if au, ok := attribution.AU(s); ok {
		out.AU = number(au)
	}
	for c, ns := range b.Stall {
		out.Stalls[trace.Cause(c).String()] = seconds(ns)
	}
	out.WorkerTime = workerTime(&b.Work)
	loss, top1 := math.NaN(), math.NaN()
	for _, e := range attribution.Epochs(s) {
		out.EpochTimes = append(out.EpochTimes, epochSummary{
			e.Epoch, seconds(e.Total), seconds(e.Load), seconds(e.Train), seconds(e.Wait),
			number(e.Loss), number(e.Top1), e.Complete, e.Injected, e.Ceiling, testOf(s, e.Epoch),
		})
		loss, top1 = e.Loss, e.Top1
	}
	out.Epochs, out.Loss, out.Top1 = len(out.EpochTimes), number(loss), number(top1)
	if n := len(s.Segments); n > 0 {
		for _, k := range s.Segments[n-1].Knobs {
			out.Knobs[k.Name] = k.Value
		}
	}
	out.Experiments = experimentTable(s, a.Experiments)
	if a.Ceiling.Text != "" {
		gain := summariseChange(&a.Ceiling.Change)
		out.CeilingGain = &gain
	}
	out.Ranks, out.Script = rankTable(s)
	out.DroppedSpans = s.Outcome.Dropped()
	out.imported, out.foreign = s.Meta.Imported != "", !s.Meta.Learns()
	out.Profile = profileOf(s.Meta.Profile)
	if out.imported {
		for i := range s.Notes {
			out.Notes = append(out.Notes, s.Notes[i].Text)
		}
	}
	out.diagnosed = diagnosedOf(s, &a)
	out.Labels = advice.Keys(a.Labels)
	out.Injected = slices.Contains(out.Labels, "injected")
	out.Ceiling = slices.Contains(out.Labels, "ceiling")
	return out
}

// took is the time of the steps, in words: that which rates count, and where that matters what they
// do not.
func (s *summary) took() string {
	paused := s.Stalls[trace.CausePaused.String()].ns()
	if 20*paused < s.Wall.ns() {
		return units.Prose.Time(s.Wall.ns())
	}
	return fmt.Sprintf("%s, not counting %s in which training stood still", units.Prose.Time(s.Wall.ns()-paused), units.Prose.Time(paused))
}

// text is the summary for people.
func (s summary) text() string {
	var b strings.Builder
	status := s.Status
	if s.imported { // how the run ended is not in a trace
		status = "recorded"
	}
	fmt.Fprintf(&b, "%s: %s on %s", status, units.Line(s.Model), units.Line(s.Device))
	if s.Dataset != "" {
		b.WriteString(", " + units.Line(s.Dataset))
	}
	b.WriteString(advice.Brackets(s.advice.Labels))
	switch {
	case s.Steps == 0:
		b.WriteString("\nno step ended, so nothing was measured")
	case s.imported: // nobody counted samples, and no loss is on record
		fmt.Fprintf(&b, "\n%s in %s: device utilisation %s",
			units.Counted(s.Steps, "step", "steps"), units.Prose.Time(s.Wall.ns()), units.Prose.Percent(float64(s.DeviceUtilization)))
		if s.Profile != nil && len(s.Profile.GPUs) > 0 {
			b.WriteString("; " + s.Profile.text)
		}
	default:
		fmt.Fprintf(&b, "\n%s, %s in %s: %s samples/s, device utilisation %s",
			units.Counted(s.Steps, "step", "steps"), units.Counted(s.Samples, "sample", "samples"), s.took(),
			units.Rate(float64(s.SamplesPerSecond)), units.Prose.Percent(float64(s.DeviceUtilization)))
		if !s.foreign {
			b.WriteString(", loss " + lossText(s.Loss, s.Top1))
		}
	}
	if s.Steps > 0 && !math.IsNaN(float64(s.Top1)) { // the screen's loss is the last step's
		epoch := s.Epochs
		if n := len(s.EpochTimes); n > 0 { // of a run that went on it is a later one than the run had
			epoch = int(s.EpochTimes[n-1].Epoch) + 1
		}
		fmt.Fprintf(&b, " and top-1 %s (means of epoch %d)", units.Prose.Percent(float64(s.Top1)), epoch)
	}
	if n := len(s.EpochTimes); n > 0 && s.EpochTimes[n-1].testSummary != nil {
		t := s.EpochTimes[n-1].testSummary
		fmt.Fprintf(&b, "; on %s test samples loss %s and top-1 %s", units.Count(t.Samples), units.Loss(float64(t.Loss)), units.Prose.Percent(float64(t.Top1)))
	}
	b.WriteByte('\n')
	if s.Diverged != nil {
		fmt.Fprintf(&b, "diverged the loss is not a number since step %d: lower --lr; what the device waited for was measured all the same\n", *s.Diverged)
	}
	if s.advice.Verdict.Text != "" {
		whose := ""
		if s.Segments > 1 {
			whose = "on segment " + s.Judged + ", "
		}
		fmt.Fprintf(&b, "verdict  %s%s\n", whose, s.advice.Verdict.Text)
	}
	if s.Advice != "" {
		fmt.Fprintf(&b, "advice   %s\n", s.Advice)
	}
	for i := range s.advice.Experiments {
		x := &s.advice.Experiments[i]
		fmt.Fprintf(&b, "%-*s%s\n", labelWidth, x.Name(), units.Line(x.Text()))
		kept := &s.Experiments[i]
		if kept.Flags != "" {
			fmt.Fprintf(&b, "%-*s%s\n", labelWidth, "keep", kept.Flags)
		}
		if kept.DataLoader != "" {
			fmt.Fprintf(&b, "%-*s%s\n", labelWidth, "pytorch", kept.DataLoader)
		}
	}
	if c := &s.advice.Ceiling; c.Text != "" && !c.Again {
		fmt.Fprintf(&b, "%-*s%s, from the settings judged\n", labelWidth, "ceiling", c.Text)
	}
	for i := range s.advice.Asides {
		fmt.Fprintf(&b, "remark   %s\n", s.advice.Asides[i].Evidence)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note     %s\n", n)
	}
	if text := tunedText(s.Autotune); text != "" {
		fmt.Fprintf(&b, "autotune %s\n", text)
	}
	if s.DroppedSpans > 0 {
		fmt.Fprintf(&b, "dropped  %s: the shares above may be off\n", units.Counted(s.DroppedSpans, "span", "spans"))
	}
	if u := s.Unsaved; u != nil {
		fmt.Fprintf(&b, "unsaved  %s, of %s to %s after the start, are not in the session's file\n",
			advice.Lost(u.Steps, u.Spans), units.Prose.Time(u.From.ns()), units.Prose.Time(u.To.ns()))
	}
	return b.String()
}

// lossText is "-" where nothing was computed, which top1 tells from a loss that broke.
func lossText(loss, top1 number) string {
	if math.IsNaN(float64(loss)) && math.IsNaN(float64(top1)) {
		return "-"
	}
	return units.Loss(float64(loss))
}
