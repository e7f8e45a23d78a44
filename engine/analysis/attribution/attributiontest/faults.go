package attributiontest

import "dev.gpustall/engine/trace"

// Healthy returns a run in which two workers keep up with the device.
func Healthy() Run {
	return Run{
		Workers: 2, Prefetch: 2, Steps: 100, Start: 2 * Msec,
		Read: 2 * Msec, Decode: 3 * Msec, Transform: 2 * Msec, Collate: Msec,
		Enqueue: Msec / 5, Copy: Msec, Compute: 10 * Msec,
	}
}

// Fault is a bottleneck that can be injected into a run.
type Fault struct {
	Name     string
	Inject   func(*Run)
	Dominant trace.Cause   // what it must be charged to; CauseUnknown where nothing is lost
	Causes   []trace.Cause // what may be charged; every other cause stays under 1 %
}

// Faults are bottlenecks that make a run of Healthy wait.
var Faults = []Fault{
	{"none", func(s *Run) {}, trace.CauseUnknown, nil},
	{"slow read", func(s *Run) { s.Read = 40 * Msec }, trace.CauseRead,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"slow decode", func(s *Run) { s.Decode = 40 * Msec }, trace.CauseDecode,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"slow transform", func(s *Run) { s.Transform = 40 * Msec }, trace.CauseTransform,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"one straggler", func(s *Run) { s.Workers, s.Straggler, s.Delay = 4, 3, 150*Msec }, trace.CauseOrder,
		[]trace.Cause{trace.CauseOrder, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"no overlap", func(s *Run) { s.Workers = 0; s.Sync = 1 }, trace.CauseDecode,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"slow copy", func(s *Run) { s.Copy = 15 * Msec }, trace.CauseCopy,
		[]trace.Cause{trace.CauseCopy}},
	{"step loop woken late", func(s *Run) { s.Workers, s.Prefetch, s.Transform, s.Late = 1, 1, 11*Msec, 9*Msec }, trace.CauseHost,
		[]trace.Cause{trace.CauseHost, trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"slow enqueue", func(s *Run) { s.Enqueue = 15 * Msec }, trace.CauseLaunch,
		[]trace.Cause{trace.CauseLaunch}},
	{"slow metrics", func(s *Run) { s.Sync = 4 * Msec }, trace.CauseSync,
		[]trace.Cause{trace.CauseSync, trace.CauseCopy}},
	{"paused", func(s *Run) { s.PauseAt, s.Pause = 50, 5000*Msec }, trace.CauseUnknown,
		[]trace.Cause{trace.CausePaused}},
	{"workers restarted every epoch", func(s *Run) { s.Epoch, s.Restart, s.Start = 10, true, 80*Msec }, trace.CauseStartup,
		[]trace.Cause{trace.CauseStartup, trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
	{"slots returned late", func(s *Run) { s.Slots, s.Lag = 1, 20*Msec }, trace.CausePrefetch,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CausePrefetch, trace.CauseCopy}},
	{"one worker on a steady load", func(s *Run) { s.Workers, s.Prefetch, s.Transform = 1, 1, 22*Msec }, trace.CauseTransform,
		[]trace.Cause{trace.CauseRead, trace.CauseDecode, trace.CauseTransform, trace.CauseCollate, trace.CauseCopy}},
}
