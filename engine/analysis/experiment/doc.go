// Package experiment answers questions about a run by changing its knobs for a while: are
// other settings faster (Paired), and what if data were free (Ceiling). An Experiment is a
// state machine. It looks at snapshots of the session, asks for knob changes as a key does,
// and goes on when the trace confirms them. It has no goroutine and no clock: whoever owns
// it calls Look now and then.
//
// However it ends, the run is left with the settings that it was found with, unless others
// were proved to be faster.
package experiment
