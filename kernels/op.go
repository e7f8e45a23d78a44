// Package kernels holds the operations of training: their shapes, costs and Go
// references. The kernels that compute them on a device are in kernels/cpu and
// kernels/cuda.
//
// Layouts: activations are NHWC, weights KRSC (output channel, row, column,
// input channel), vectors dense. Float activations and weights have the
// operation's Type; statistics, gradients of parameters, master weights,
// momentum, losses and hyper-parameters are always float32. Labels are int32.
//
// Each operation documents its buffers in the order in which a launch lists
// them. FLOPs counts a multiply-add as two. Bytes counts each input read once
// and each output written once.
package kernels

import "fmt"

// Op is what every operation of this package offers.
type Op interface {
	Name() string
	FLOPs() float64
	Bytes() float64
	// Args describes the buffers, in the order in which a launch lists them.
	Args() []Arg
	// Reference computes the operation in plain Go, on host memory laid out as Args
	// says. It is slow and simple; devices are tested against it.
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

// Check returns an error where buffers do not fit an operation's args: a wrong number of
// buffers, or one that is too small. size returns the bytes of buffer i.
func Check(args []Arg, buffers int, size func(i int) int) error {
	if buffers != len(args) {
		return fmt.Errorf("it takes %d buffers, not %d", len(args), buffers)
	}
	for i, a := range args {
		if n := size(i); n < a.Size() {
			return fmt.Errorf("buffer %d (%s) has %d bytes and needs %d", i, a.Name, n, a.Size())
		}
	}
	return nil
}

// traffic returns the fewest bytes moved: each input read once, each output written once.
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

// narrow rounds src into dst.
func narrow(dst []float32, src []float64) {
	for i, v := range src {
		dst[i] = float32(v)
	}
}

// sumRows sets dst[c] to the sum over rows of src[row,c].
func sumRows(dst, src []float32, rows, c int) {
	sum := make([]float64, c)
	for i, v := range src[:rows*c] {
		sum[i%c] += float64(v)
	}
	narrow(dst, sum)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
