//go:build !linux

package host

// Threads would hold what tells how long threads waited for a core.
type Threads struct{}

// OpenThreads returns nil, and why.
func OpenThreads() (*Threads, Reading) {
	return nil, unknown("only Linux tells how long a thread waited for a core")
}

// Close does nothing.
func (*Threads) Close() {}

// Meter returns nil.
func (*Threads) Meter() *Meter { return nil }

// Meter would read the times of the calling thread.
type Meter struct{}

// Waited is not known.
func (*Meter) Waited() (ns int64, ok bool) { return 0, false }

// CPU is not known.
func (*Meter) CPU() int64 { return 0 }
