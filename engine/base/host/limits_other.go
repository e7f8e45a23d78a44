//go:build !unix

package host

// Limit is one that the system sets this process; Unlimited where it sets none.
type Limit struct {
	Most      int64
	Unlimited bool
	Known     bool
}

// OpenFiles tells nothing on this system.
func OpenFiles() (most Limit, open int) { return Limit{}, -1 }

// LockedMemory tells nothing on this system.
func LockedMemory() Limit { return Limit{} }
