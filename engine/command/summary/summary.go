// Package summary says what a session tells, as JSON and as lines for people: progress,
// decisions, the summary of a run, and comparisons. docs/reference/json.md lists the keys.
package summary

import (
	"slices"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// Run is the whole run in one object. JSON has the keys in the order of the fields; those of an
// embedded part stand in its place.
type Run struct {
	Type string `json:"type"`
	outcome
	subject
	counts
	pace
	learning
	losses
	judgement
	course
	recording
	memory
	Autotune []TunedKernel `json:"autotune,omitempty"`
	copies
	opTables
	LossScale *lossScale       `json:"loss_scale,omitempty"` // fp16
	Gauges    map[string]gauge `json:"gauges"`
	ranks
	Lines []lineSummary `json:"lines,omitempty"` // of a PyTorch script's code
	experimented
	Labels  []string        `json:"labels,omitempty"`
	Profile *profileSummary `json:"profile,omitempty"`
	Notes   []string        `json:"notes,omitempty"` // what an imported trace lacks
	diagnosed
	forecast

	advice   advice.Advice
	imported bool // the session is another profiler's trace
	alone    bool // nothing tells what the loop waits for
	foreign  bool // the training is the user's own: no loss is on record
}

// Of returns the summary of a session, whose file is file.
func Of(s *trace.Snapshot, file string) *Run {
	b := attribution.Breakdown{Totals: s.Total}
	rows := attribution.Segments(s)
	a, at := advice.Overall(s, rows)
	epochs := epochTable(s)
	out := &Run{
		Type:         "summary",
		outcome:      outcome{Session: file, Status: s.Outcome.Status},
		subject:      subjectOf(&s.Meta, &a),
		counts:       countsOf(s, len(epochs)),
		pace:         paceOf(s, &b),
		learning:     learnt(s, epochs),
		losses:       lossesIn(&b),
		judgement:    judgementOf(&a),
		course:       course{EpochTimes: epochs, Segments: len(s.Segments), Knobs: map[string]string{}},
		recording:    recordingOf(s),
		memory:       memoryOf(s),
		copies:       copiesOf(&b),
		opTables:     opTablesOf(s, rows),
		LossScale:    scaleSummary(s),
		Gauges:       gaugeTable(s),
		ranks:        ranksOf(s),
		Lines:        lineTable(a.Lines),
		experimented: experimentedOf(s, &a),
		Labels:       advice.Keys(a.Labels),
		Profile:      profileOf(s.Meta.Profile),
		diagnosed:    diagnosedOf(s, &a),
		forecast:     forecastOf(s, &a, rows),
		advice:       a,
		imported:     s.Meta.Imported != "",
		foreign:      !s.Meta.Learns(),
		alone:        s.Meta.Alone(),
	}
	if len(rows) > 0 {
		out.Judged = rows[at.Kept].Name()
	}
	if n := len(s.Segments); n > 0 {
		out.Knobs = knobMap(s.Segments[n-1].Knobs)
	}
	if out.imported {
		for i := range s.Notes {
			out.Notes = append(out.Notes, s.Notes[i].Text)
		}
	}
	return out
}

// outcome is how the run ended.
type outcome struct {
	Session string      `json:"session"`
	Status  string      `json:"status"`
	Error   string      `json:"error,omitempty"`
	Failure *errs.Error `json:"failure,omitempty"` // the error's parts
}

// subject is what was trained on what.
type subject struct {
	Device     string `json:"device"`
	DeviceKind string `json:"device_kind"`
	Model      string `json:"model"`
	Dataset    string `json:"dataset"`
	Emulated   bool   `json:"emulated"`
	Synthetic  bool   `json:"synthetic"`
	Injected   bool   `json:"injected"` // in some steps
	Ceiling    bool   `json:"ceiling"`  // in some steps
	Seed       int64  `json:"seed"`
}

func subjectOf(m *trace.Meta, a *advice.Advice) subject {
	labels := advice.Keys(a.Labels)
	return subject{
		Device: m.Device, DeviceKind: m.DeviceKind, Model: m.Model, Dataset: m.Dataset, Emulated: m.Emulated, Synthetic: m.Synthetic,
		Injected: slices.Contains(labels, "injected"), Ceiling: slices.Contains(labels, "ceiling"), Seed: m.Seed,
	}
}

// counts are numbers of steps, samples and requests.
type counts struct {
	Steps          int      `json:"steps"`
	Epochs         int      `json:"epochs"` // begun
	Samples        int64    `json:"samples"`
	Skipped        int64    `json:"samples_skipped,omitempty"` // by on_error=skip
	SkippedSamples []string `json:"skipped_samples,omitempty"` // why, each once, at most 100
	StoreRequests  int64    `json:"store_requests,omitempty"`  // to object stores, attempts included
	StoreRetries   int64    `json:"store_retries,omitempty"`   // the repeated ones of them
}

func countsOf(s *trace.Snapshot, epochs int) counts {
	c := counts{
		Steps: int(s.Total.Steps), Epochs: epochs, Samples: s.Total.Samples, Skipped: s.Skipped(),
		StoreRequests: int64(s.Latest(trace.GaugeStoreRequests)), StoreRetries: int64(s.Latest(trace.GaugeStoreRetries)),
	}
	for _, n := range s.SkippedNotes() {
		c.SkippedSamples = append(c.SkippedSamples, n.Text)
	}
	return c
}

// pace is how fast the run went, over all its steps.
type pace struct {
	Wall              number `json:"wall_s"`
	Busy              number `json:"busy_s"`
	SamplesPerSecond  number `json:"samples_per_s"`
	DeviceUtilization number `json:"device_utilization"`
	AU                number `json:"accelerator_utilization"`
	DataWait          number `json:"data_wait_s"`
	Load              number `json:"load_s"`
	Train             number `json:"train_s"`
}

func paceOf(s *trace.Snapshot, b *attribution.Breakdown) pace {
	p := pace{
		Wall: seconds(b.Wall), Busy: seconds(b.Busy), SamplesPerSecond: none, DeviceUtilization: none, AU: none,
		DataWait: seconds(b.Wait), Load: seconds(b.Load), Train: seconds(b.Busy),
	}
	if b.Steps > 0 {
		p.SamplesPerSecond, p.DeviceUtilization = number(b.SamplesPerSecond()), number(b.Utilisation())
	}
	if au, ok := attribution.AU(s); ok {
		p.AU = number(au)
	}
	return p
}

// losses are where the time went.
type losses struct {
	Stalls     map[string]number `json:"stalls_s"`              // seconds lost to each cause
	WorkerTime map[string]split  `json:"worker_time,omitempty"` // of batches, and of each phase that was measured
}

func lossesIn(b *attribution.Breakdown) losses {
	l := losses{Stalls: map[string]number{}, WorkerTime: workerTime(&b.Work)}
	for c, ns := range b.Stall {
		l.Stalls[trace.Cause(c).String()] = seconds(ns)
	}
	return l
}

// split says how a worker spent its time, and so what it is bound by, for example cores or I/O.
type split struct {
	Core    number `json:"core_s"`
	Waiting number `json:"run_queue_wait_s"` // for a core
	Blocked number `json:"blocked_s"`
	Bound   string `json:"bound"`
}

func splitOf(s trace.Split) split {
	return split{seconds(s.Core), seconds(s.Waiting), seconds(s.Blocked), s.Bound().Info().Name}
}

// workerTime returns how workers spent their time: for "batch" and for each phase.
func workerTime(w *trace.Work) map[string]split {
	out := map[string]split{}
	add := func(name string, s trace.Split) {
		if s.Total() > 0 {
			out[name] = splitOf(s)
		}
	}
	add("batch", w.Batch)
	for k := trace.KindRead; k.IsPhase(); k++ {
		add(k.String(), *w.Phases.Of(k))
	}
	return out
}

// judgement holds the verdict, and the piece of advice that comes first.
type judgement struct {
	Verdict     string `json:"verdict"`
	VerdictText string `json:"verdict_text"`              // as in report and screen
	Judged      string `json:"verdict_segment,omitempty"` // the segment that verdict and advice are about, which has the settings to keep
	Dominant    string `json:"dominant_cause"`
	Advice      string `json:"advice"`
	Knob        string `json:"knob"`  // that the advice names; empty if no knob helps
	Value       string `json:"value"` // of that knob
}

func judgementOf(a *advice.Advice) judgement {
	first := a.First()
	return judgement{
		Verdict: a.Verdict.Class, VerdictText: a.Verdict.Text, Dominant: dominant(&a.Verdict),
		Advice: a.Text(), Knob: first.Knob, Value: first.Value,
	}
}

// dominant names the largest cause of the verdict. It is "none" if there is no verdict, or if it
// blames no cause.
func dominant(v *advice.Verdict) string {
	if v.Group == trace.GroupNone {
		return "none"
	}
	return v.Dominant.String()
}

// course is what the run went through: epochs, segments and knobs.
type course struct {
	EpochTimes []epochSummary    `json:"epoch_times"`
	Segments   int               `json:"segments"`
	Knobs      map[string]string `json:"knobs"` // at the end
}

// recording is what the file of the session lacks.
type recording struct {
	DroppedSpans int64    `json:"dropped_spans"`
	LostSteps    int64    `json:"lost_steps,omitempty"`
	dropped      string   // what that leaves uncertain
	Unsaved      *unsaved `json:"unsaved,omitempty"`
}

// unsaved is what a full disk kept out of the session's file.
type unsaved struct {
	Steps int64  `json:"steps"`
	Spans int64  `json:"spans"`
	From  number `json:"from_s"`
	To    number `json:"to_s"`
}

func recordingOf(s *trace.Snapshot) recording {
	r := recording{DroppedSpans: s.Outcome.Dropped(), LostSteps: s.Total.Lost, dropped: advice.Dropped(s)}
	if u := s.Outcome.Unsaved; u.Any() {
		r.Unsaved = &unsaved{u.Steps, u.Spans, seconds(u.From), seconds(u.To)}
	}
	return r
}

// copies are the copies to the device, hidden behind computing or not.
type copies struct {
	CopyIn      number `json:"h2d_s"`
	CopyInShare number `json:"h2d_share"` // of the wall time
}

func copiesOf(b *attribution.Breakdown) copies {
	c := copies{CopyIn: seconds(b.Copy), CopyInShare: none}
	if b.Steps > 0 {
		c.CopyInShare = number(float64(b.Copy) / float64(b.Wall))
	}
	return c
}

// gauge sums up the samples of a gauge that were taken while steps ran.
type gauge struct {
	Mean    number `json:"mean"`
	Max     number `json:"max"`
	Samples int    `json:"samples"`
}

func gaugeTable(s *trace.Snapshot) map[string]gauge {
	out := map[string]gauge{}
	for name := range s.Gauges {
		if mean, top, n := s.GaugeDuringSteps(name); n > 0 && !trace.IsEventGauge(name) {
			out[name] = gauge{Mean: number(mean), Max: number(top), Samples: n}
		}
	}
	return out
}
