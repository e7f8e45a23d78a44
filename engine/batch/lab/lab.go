// Package lab tunes a training that waits for data, on its own, from a baseline to a
// report. It measures a baseline, diagnoses it and tries the fixes of the advisor one by
// one. It validates what was kept, then tries precision, gradient accumulation,
// activation checkpointing and capture. In the end it measures everything that was kept
// once more, as a ladder.
//
// Each stage is a sweep (engine/batch/sweep) in a folder of its own. So a stage measures
// as any sweep does, and a stopped lab goes on where it was. What a stage does depends
// only on what the stages before it measured.
package lab

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/batch/sweep"
)

// Request is what a lab is asked for.
type Request struct {
	Base   []knob.Setting `json:"base"`             // the baseline's settings, as far as they were chosen
	Slowed []string       `json:"slowed,omitempty"` // those of Base that were chosen to be slow
	Inject bool           `json:"inject,omitempty"` // make reads slow where the baseline does not wait for data
	Long   int            `json:"long"`             // steps of the baseline's and the validation's runs
	Trial  int            `json:"trial"`            // steps of the others
	Epochs int            `json:"epochs,omitempty"` // Long in epochs; 0 where steps were asked for
	Warmup int            `json:"warmup"`           // steps of each run that do not count
	Repeat int            `json:"repeat"`           // runs of each configuration, in turns
	Cores  int            `json:"cores"`            // of the host, for the loader to use
	Data   string         `json:"data,omitempty"`   // where the data set lies; empty for one made in memory
	Recipe Recipe         `json:"recipe"`

	Transforms *Transforms `json:"transforms,omitempty"` // where they were chosen

	Version string `json:"version"`
}

// Recipe is how the script sets the optimizer.
type Recipe struct {
	Optimizer   string  `json:"optimizer,omitempty"` // in Python, where one was chosen
	LR          float64 `json:"lr"`
	Momentum    float64 `json:"momentum"`
	WeightDecay float64 `json:"weight_decay"`
	Warmup      int     `json:"warmup"`             // steps
	Schedule    string  `json:"schedule,omitempty"` // in Python, where one was chosen
	ByEpoch     bool    `json:"by_epoch,omitempty"` // the schedule is stepped after each epoch, not after each update
}

// Transforms are the transforms of images, as lists in Python with torchvision.transforms as T.
type Transforms struct {
	Train string `json:"train"`
	Test  string `json:"test"`
	Side  int    `json:"side"` // the longer side of the samples
}

// Lab does what its Request asks for, in a folder.
type Lab struct {
	Record
	Dir    string
	Runner sweep.Runner
	// Check says why settings cannot be run here, or else what of them has no effect.
	Check func(all []knob.Setting) (refused string, idle []string)
	Tell  func(sweep.Event) // of the runs, counted over the whole lab
	Say   func(text string) // what the lab has found out
}

// Run does what is left of the lab. When ctx ends, what was measured until then stays in
// the Record, and Run returns the error of ctx.
func (l *Lab) Run(ctx context.Context) error {
	if l.Say == nil {
		l.Say = func(string) {}
	}
	l.restart()
	s := &story{Record: &l.Record, bench: newBench(l), say: l.Say}
	return s.run(ctx)
}

// Err says that runs failed; nil where none did.
func (l *Lab) Err() error {
	var failed []string
	for _, s := range l.Stages {
		for i := 0; s.Results != nil && i < len(s.Results.Rows); i++ {
			if r := &s.Results.Rows[i]; r.Failed != "" {
				failed = append(failed, s.Title+": "+r.Name)
			}
		}
	}
	if len(failed) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%s failed: %s", units.Counted(len(failed), "configuration", "configurations"), strings.Join(failed, ", "))
	return errs.New("run the lab in", l.Dir, reason, "the report says why; --resume tries them again")
}

// Write makes the folder's results: pictures, table, script and report. write is how a
// file is written.
func (l *Lab) Write(write func(path string, content func(io.Writer) error) error) error {
	for _, p := range l.Pictures() {
		if err := write(filepath.Join(l.Dir, p.File), p.Sheet.PNG); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(l.Dir, ResultFile), l.CSV); err != nil {
		return err
	}
	if err := write(filepath.Join(l.Dir, ScriptFile), l.Script); err != nil {
		return err
	}
	return write(filepath.Join(l.Dir, ReportFile), l.Document().Markdown)
}
