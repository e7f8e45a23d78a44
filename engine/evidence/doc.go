// Package evidence says whether one stretch of training was faster than another:
// different by so much, the same within a margin, or not known yet and what is
// missing. It holds however often the answer is looked at while steps arrive, and for
// steps that are correlated, come in bursts or drift.
//
// A caller sums up each stretch of steady steps under one setting (Measure), tells
// the session's History of it, and compares two of them (Compare). All values are
// plain and can be shown, stored or compared again; nothing here keeps state, does
// I/O or knows what a knob is.
//
// The test behind `make truth` measures how often equal settings are called different
// on simulated hosts, and how soon true differences are found.
package evidence
