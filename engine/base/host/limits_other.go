//go:build !unix

package host

// Limit is a limit that the system sets for this process; Unlimited where there is none.
type Limit struct {
	Most      int64
	Unlimited bool
	Known     bool
}

// OpenFiles tells nothing on this system.
func OpenFiles() (most Limit, open int) { return Limit{}, -1 }

// LockedMemory tells nothing on this system.
func LockedMemory() Limit { return Limit{} }
