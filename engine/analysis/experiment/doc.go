// Package experiment answers questions about a run by changing its knobs for a while. Are other
// settings faster (an A/B test, Paired)? What if data were free (the cached-batch ceiling,
// Ceiling)? Which settings are the fastest (Tune)?
//
// An Experiment is a state machine. It looks at snapshots of the session, asks for knob changes as
// a key press does, and continues when the trace confirms them. It has no goroutine and no clock:
// its owner calls Look now and then.
//
// However it ends, the run is left with the settings at its start, unless others were proved to be
// faster.
package experiment
