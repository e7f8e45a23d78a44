//go:build !cgo

package nvml

// Sampler needs cgo; without it there is none.
type Sampler struct{}

// Open says that this binary cannot read NVML.
func Open(int) (*Sampler, error) {
	return nil, failed("open", "NVML", "this binary was built without cgo").Because(ErrNoDriver)
}

// OpenUUID returns what Open returns.
func OpenUUID(string) (*Sampler, error) { return Open(0) }

// Name returns nothing.
func (*Sampler) Name() string { return "" }

// Driver returns nothing.
func (*Sampler) Driver() string { return "" }

// Read returns nothing.
func (*Sampler) Read() []Gauge { return nil }

// Close does nothing.
func (*Sampler) Close() error { return nil }
