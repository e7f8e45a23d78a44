package tui

import "time"

// moment is the time that the screen shows: the newest one, or the one at which it is
// frozen.
type moment struct {
	frozen bool  // the moment shown stands still
	at     int64 // that moment, ns
	play   bool  // a replay moves it on
	played time.Time
}

// freeze makes the screen stand still at a moment, unless it does already.
func (o *moment) freeze(at int64) {
	if !o.frozen {
		o.frozen, o.at = true, at
	}
}

// advance moves a replay that plays on to now. It stops at the end of the session.
func (o *moment) advance(now time.Time, end int64) {
	if !o.play {
		return
	}
	if !o.played.IsZero() {
		o.at += now.Sub(o.played).Nanoseconds()
	}
	o.played = now
	if o.at >= end {
		o.at, o.play = end, false
	}
}

// playOrStop starts a replay or stops it. From the end it starts over.
func (o *moment) playOrStop(end int64) {
	o.play = !o.play
	o.played = time.Time{}
	if o.play && o.at >= end {
		o.at = 0
	}
}

// move moves the moment by ns.
func (o *moment) move(ns int64) { o.at = max(o.at+ns, 0) }

// toEnd goes to the newest moment and, in a live run, follows it.
func (o *moment) toEnd(end int64, replay bool) {
	o.at, o.play = end, false
	o.frozen = o.frozen && replay
}
