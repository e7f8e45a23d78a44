package kernels

// Op is what every operation of this package offers.
type Op interface {
	Name() string
	FLOPs() float64
	Bytes() float64
	// Args describes the buffers, in the order in which a launch lists them.
	Args() []Arg
	// Reference computes the operation in plain Go on host memory laid out as
	// Args says. It is slow and obviously right; devices are tested against it.
	Reference(bufs [][]byte)
}

// Role says whether an operation reads or writes a buffer.
type Role uint8

const (
	In Role = iota
	Out
	InOut
)

// Arg describes one buffer of an operation.
type Arg struct {
	Name string
	Role Role
	Type Type
	Len  int // elements
}

// Size returns the buffer's bytes.
func (a Arg) Size() int { return a.Len * a.Type.Size() }

// traffic is the fewest bytes moved: inputs read once, outputs written once.
func traffic(args []Arg) float64 {
	var sum float64
	for _, a := range args {
		n := float64(a.Size())
		if a.Role == InOut {
			n *= 2
		}
		sum += n
	}
	return sum
}
