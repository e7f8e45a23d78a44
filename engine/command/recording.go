package command

import (
	"fmt"
	"path/filepath"

	"dev.gpustall/engine/analysis/advice"
	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/analysis/predict"
	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/metrics"
	"dev.gpustall/engine/command/remote"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/trace"
)

// recording is a session that is being written, of our own training or of the user's, and what
// goes on beside the training. Its owner ends it with unwatch and complete.
type recording struct {
	file      string // of the session
	recorder  *trace.Recorder
	session   *trace.Session
	collector *trace.Collector
	gauges    *watch.Task
	fileWatch *watch.File
	tries     *watch.Experiments
	remote    *remote.Server  // nil if other processes cannot ask
	fleet     *watch.Fleet    // nil unless ranks of other gpustalls are seen
	metrics   *metrics.Export // nil unless --metrics asks for it
}

// begin makes the session and its collector. Once started, the collector writes to st, or keeps
// the session only in memory if st is nil. The time before since belongs to no step.
func (r *recording) begin(meta trace.Meta, st trace.Store, since int64) {
	r.session = trace.NewSession(meta)
	r.collector = trace.NewCollector(r.recorder, r.session, attribution.NewAnalyzer(since), st)
}

// watch starts to watch the session's file, and to run experiments by control.
func (r *recording) watch(control remote.Control, needs func([]knob.Setting) (host int64, refusal string)) {
	r.fileWatch = watch.WatchFile(r.recorder, r.file)
	r.tries = watch.StartExperiments(r.session, control, r.recorder, needs)
	var err error
	if r.remote, err = remote.Serve(r.file, r.tries, control); err != nil {
		r.recorder.Note("info", "gpustall try and view cannot change this run: "+err.Error())
	}
}

// export hands the session's numbers out if --metrics asks for it. A failure costs only the metrics.
func (r *recording) export(to string) {
	if to == "" {
		return
	}
	failed := func(err error) { r.recorder.Note("warn", "the run goes on without metrics: "+err.Error()) }
	e, err := metrics.Start(to, r.session, failed)
	if err != nil {
		failed(err)
		return
	}
	r.metrics = e
	r.recorder.Note("info", "metrics for Prometheus: "+e.Where)
}

// unwatch ends what runs beside the training.
func (r *recording) unwatch() {
	if r.remote != nil {
		r.remote.Close()
	}
	if r.metrics != nil {
		r.metrics.Stop()
	}
	r.tries.Close()
	if r.fleet != nil {
		r.fleet.Stop()
	}
	r.gauges.Stop()
	r.fileWatch.Stop()
}

// complete completes the session's file.
func (r *recording) complete(out trace.Outcome) error {
	return errs.Wrap(r.collector.Stop(out), "write session file", r.file, "free some space, or name a file elsewhere with --session")
}

// summarise returns the summary of the session, and of the error that ended it.
func (r *recording) summarise(cause error) *summary.Run {
	out := summary.Of(all(r.session), r.file)
	if cause != nil {
		out.Error, out.Failure = cause.Error(), cli.Explain(cause)
	}
	return out
}

// kept says where the session is and what to do with it. there is false if the file was removed.
func (r *recording) kept() (text string, there bool) {
	if !cli.Exists(r.file) {
		return fmt.Sprintf("session  %s was removed during the run\n", r.file), false
	}
	return fmt.Sprintf("session  %s\nreport   gpustall report %s\n", r.file, r.id()), true
}

// id returns the session's name for the command line: its base name in the state directory, and
// its path elsewhere.
func (r *recording) id() string {
	if filepath.Dir(r.file) != cli.SessionDir() {
		return r.file
	}
	return baseName(r.file)
}

// predict predicts what the run would do with these knobs, from the last window of the session.
// The engine calls it for each change, by a key, a script or a command, and keeps the answer with
// the segment that the change begins.
func (r *recording) predict(to []knob.Setting) (p trace.Prediction) {
	defer watch.Recover(r.recorder, "predict a change")
	return foreseen(r.session, to)
}

// foreseen predicts what a run would do with these knobs, from the last window of its session.
func foreseen(session *trace.Session, to []knob.Setting) (p trace.Prediction) {
	s := session.Snapshot(0, 0)
	t := trace.Count(attribution.Window(s))
	if t.Steady.Steps == 0 || len(s.Segments) == 0 {
		return p
	}
	s = session.Snapshot(t.From, t.To)
	m, ok := predict.Fit(s, t, attribution.Segments(s))
	if !ok {
		return p
	}
	made, ok := m.Predict(advice.Chosen(s.Segments[len(s.Segments)-1].Knobs, to)...)
	if !ok {
		return trace.Prediction{}
	}
	return made.Prediction
}
