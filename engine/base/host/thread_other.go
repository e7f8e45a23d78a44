//go:build !linux

package host

// Meter would read the times of the calling thread, which this system does not tell.
type Meter struct{}

// NewMeter returns nil and the reason.
func NewMeter() (*Meter, Reading) {
	return nil, unknown("only Linux tells how long a thread waited for a core")
}

// Waited is not known.
func (*Meter) Waited() (ns int64, ok bool) { return 0, false }

// CPU is not known.
func (*Meter) CPU() int64 { return 0 }
