//go:build !linux

package host

// Meter would read the times of the calling thread.
type Meter struct{}

// NewMeter returns nil, and why.
func NewMeter() (*Meter, Reading) {
	return nil, unknown("only Linux tells how long a thread waited for a core")
}

// Waited is not known.
func (*Meter) Waited() (ns int64, ok bool) { return 0, false }

// CPU is not known.
func (*Meter) CPU() int64 { return 0 }
