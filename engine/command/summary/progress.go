package summary

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Progress is how far a run is, and how fast it was in the last seconds.
type Progress struct {
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
	LearningRate      *number  `json:"learning_rate,omitempty"`
	ETA               number   `json:"eta_s"`
	SinceStep         number   `json:"since_step_s"` // time since the last step ended
	Late              bool     `json:"-"`            // since_step_s is far longer than usual: the rates are of earlier steps
	Evaluating        bool     `json:"evaluating,omitempty"`
	Diverged          *int32   `json:"diverged"` // the first step whose loss is not a number
	Labels            []string `json:"labels,omitempty"`
	Experiment        string   `json:"experiment,omitempty"` // that is under way
	over              string   // the steps that rates and shares are of
	foreign           bool     // no loss is on record
	words             string   // the labels, in brackets
}

// recent is the time over which progress is measured.
const recent = 5 * time.Second

// ProgressOf returns the progress of a run that ends after so many epochs, or after limit steps.
// 0 is no limit.
func ProgressOf(s *trace.Snapshot, epochs, limit int) Progress {
	steps := s.Recent
	from := len(steps)
	for from > 0 && steps[from-1].End > s.Now-int64(recent) {
		from--
	}
	if from == len(steps) && from > 0 {
		from-- // no step ended in this time: show the last one
	}
	window, over := steps[from:], fmt.Sprintf("last %.0f s", recent.Seconds())
	if len(window) == 1 {
		over = "last step"
	}
	b := attribution.Sum(window)
	g := Progress{
		T: seconds(s.Now), Epochs: epochs, Step: stepsDone(s), ETA: none, over: over,
		SamplesPerSecond: none, DeviceUtilization: none, DataShare: none,
		Loss: none, Top1: none, SinceStep: none,
	}
	if n := len(s.Experiments); n > 0 && s.Experiments[n-1].Running() {
		g.Experiment = attribution.Stage(s)
	}
	g.foreign = !s.Meta.Learns()
	labels := advice.Labels(s, nil)
	g.Labels, g.words = advice.Keys(labels), advice.Brackets(labels)
	if len(window) == 0 {
		return g
	}
	g.Diverged = brokeAt(s)
	last := &window[len(window)-1]
	g.Epoch = last.Epoch
	since := max(0, s.Now-last.End)
	g.SinceStep = seconds(since)
	g.Late = s.Silence() > 0
	g.Evaluating = s.Evaluating() || g.Late && s.InEvaluation()
	g.SamplesPerSecond = number(b.SamplesPerSecond())
	g.DeviceUtilization, g.DataShare = number(b.Utilisation()), number(b.DataShare())
	if s.Meta.Alone() {
		g.DataShare = none
	}
	g.Loss, g.Top1 = learntIn(window)
	if lr, ok := s.Gauge(trace.GaugeLearningRate); ok {
		n := number(lr)
		g.LearningRate = &n
	}
	left := math.Inf(1)
	if epochs > 0 {
		left = samplesLeft(s, epochs)
	}
	if limit > 0 && g.Step <= limit {
		g.Steps = int64(limit)
		left = min(left, float64(limit-g.Step)*float64(b.Samples)/float64(max(1, b.Steps)))
	}
	g.ETA = number(max(0, left) / b.SamplesPerSecond())
	return g
}

// stepsDone counts the steps of a run, with those of the run that it continues.
func stepsDone(s *trace.Snapshot) int {
	n := int(s.Total.Steps)
	if r := s.Meta.Resumed; r != nil {
		n += int(r.Step)
	}
	return n
}

// samplesLeft returns how many samples the epochs will still deliver with the current knobs.
// drop_last leaves out the samples that do not fill a batch.
func samplesLeft(s *trace.Snapshot, epochs int) float64 {
	each := s.Meta.Samples
	if n := len(s.Segments); n > 0 && knob.On(knob.ValueOf(s.Segments[n-1].Knobs, "drop_last")) {
		if batch, err := strconv.ParseInt(knob.ValueOf(s.Segments[n-1].Knobs, "batch_size"), 10, 64); err == nil && batch > 0 {
			each -= each % batch
		}
	}
	last := &s.Last
	before := int64(0)
	if r := s.Meta.Resumed; r != nil && r.Epoch == last.Epoch {
		before = r.Delivered
	}
	done := before + s.Epochs[len(s.Epochs)-1].Totals.Samples // in the current epoch
	if last.Flags&trace.FlagLastOfEpoch != 0 {
		done = each
	}
	return float64(max(0, each-done) + int64(epochs-1-int(last.Epoch))*each)
}

// Line returns the progress for people.
func (g Progress) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  epoch %d", units.Clock(g.T.ns()), g.Epoch+1)
	if g.Epochs > 0 {
		fmt.Fprintf(&b, "/%d", g.Epochs)
	}
	fmt.Fprintf(&b, "  step %d", g.Step)
	if g.Steps > 0 && g.Steps >= int64(g.Step) {
		fmt.Fprintf(&b, "/%d", g.Steps)
	}
	if math.IsNaN(float64(g.SamplesPerSecond)) {
		b.WriteString("  waiting for the first step")
	} else {
		util, data := units.Prose.Percent(float64(g.DeviceUtilization)), units.Prose.Percent(float64(g.DataShare))
		if math.IsNaN(float64(g.DataShare)) {
			util, data = "at least "+util, "not known"
		}
		fmt.Fprintf(&b, "  %s: %s samples/s  util %s  data %s", g.over, units.Rate(float64(g.SamplesPerSecond)), util, data)
		if !g.foreign {
			fmt.Fprintf(&b, "  loss %s  top1 %s", lossText(g.Loss, g.Top1), units.Prose.Percent(float64(g.Top1)))
		}
		if g.LearningRate != nil {
			b.WriteString("  lr " + units.LearningRate(float64(*g.LearningRate)))
		}
	}
	if g.Diverged != nil {
		fmt.Fprintf(&b, "  (diverged at step %d)", *g.Diverged)
	}
	if g.Experiment != "" {
		b.WriteString("  " + g.Experiment)
	}
	switch {
	case g.Evaluating:
		fmt.Fprintf(&b, "  evaluating for %s", units.Prose.Time(g.SinceStep.ns()))
	case g.Late:
		fmt.Fprintf(&b, "  (no step for %s)", units.Prose.Time(g.SinceStep.ns()))
	}
	if eta := float64(g.ETA); !math.IsNaN(eta) && !math.IsInf(eta, 0) {
		fmt.Fprintf(&b, "  ETA %s", units.Clock(g.ETA.ns()))
	}
	b.WriteString(g.words)
	return b.String()
}
