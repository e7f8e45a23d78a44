package ops

import "dev.gpustall/engine/device"

// Program is a list of launches that the device has prepared, and what the table
// and the sampler know of them. The zero value is none.
type Program struct {
	ID       device.Program
	launches []device.Launch

	ops     []op  // one of each launch, under segment; nil before the first timed step
	segment int32 // of ops

	// The usual device and host time of a step, in ns, and whether a step was timed.
	usual, host float64
	timed       bool
}

// op is what one call of a launch is, and where it counts.
type op struct {
	row          int32
	flops, bytes float64
}

// NewProgram has dev prepare launches.
func NewProgram(dev device.Device, launches []device.Launch) (Program, error) {
	id, err := dev.Prepare(launches)
	return Program{ID: id, launches: launches}, err
}
