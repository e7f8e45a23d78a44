package device

import "iter"

// Timing is a timed launch of a program whose times have not been read. The zero
// value is none.
type Timing int32

// TimedRuns is how many timed launches of one program may be unread.
const TimedRuns = 4

// Program returns the program that t timed.
func (t Timing) Program() Program { return Program(t / TimedRuns) }

func (t Timing) run() int { return int(t % TimedRuns) }

// Timings is a device's table of one program's timed launches. An R holds the times of one
// launch; it is used again once they were read.
type Timings[R any] struct {
	runs  [TimedRuns]R
	taken [TimedRuns]bool // launched and not read yet
}

// Next returns an R for another launch of p, and the Timing that Take gives to it. It is nil
// while the times of TimedRuns launches are unread.
func (t *Timings[R]) Next(p Program) (*R, Timing) {
	for i, taken := range t.taken {
		if !taken {
			return &t.runs[i], Timing(int(p)*TimedRuns + i)
		}
	}
	return nil, 0
}

// Take marks timing as launched.
func (t *Timings[R]) Take(timing Timing) { t.taken[timing.run()] = true }

// At returns the R of a launch that was not read yet.
func (t *Timings[R]) At(timing Timing) (*R, error) {
	if i := timing.run(); t.taken[i] {
		return &t.runs[i], nil
	}
	return nil, NoTiming(timing)
}

// Read marks timing as read.
func (t *Timings[R]) Read(timing Timing) { t.taken[timing.run()] = false }

// All yields every R, whether it was ever used or not.
func (t *Timings[R]) All() iter.Seq[*R] {
	return func(yield func(*R) bool) {
		for i := range t.runs {
			if !yield(&t.runs[i]) {
				return
			}
		}
	}
}
