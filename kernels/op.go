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

// Type is the element type of activations and weights in an operation.
type Type uint8

const (
	F32  Type = iota
	TF32      // float32 in memory, 10-bit mantissa products
	F16
	BF16
	I32 // labels and augmentation, in Arg only
	U8  // pixels, pooling indices and raw bytes, in Arg only
)

// Size returns the bytes of one element.
func (t Type) Size() int {
	switch t {
	case F16, BF16:
		return 2
	case U8:
		return 1
	}
	return 4
}

func (t Type) String() string {
	return [...]string{"fp32", "tf32", "fp16", "bf16", "int32", "uint8"}[t]
}

// Conv is the geometry of a 2-D convolution with square stride and padding.
type Conv struct {
	N, H, W, C  int // input
	K, R, S     int // output channels, filter rows and columns
	Stride, Pad int
}

// OutH returns the output's height.
func (c Conv) OutH() int { return (c.H+2*c.Pad-c.R)/c.Stride + 1 }

// OutW returns the output's width.
func (c Conv) OutW() int { return (c.W+2*c.Pad-c.S)/c.Stride + 1 }

func (c Conv) flops() float64 {
	return 2 * float64(c.N*c.OutH()*c.OutW()) * float64(c.K) * float64(c.R*c.S*c.C)
}
func (c Conv) InLen() int     { return c.N * c.H * c.W * c.C }
func (c Conv) OutLen() int    { return c.N * c.OutH() * c.OutW() * c.K }
func (c Conv) WeightLen() int { return c.K * c.R * c.S * c.C }

// ConvForward computes y = conv(x, w) [+ bias] [then ReLU].
// Buffers: x, w, y, and bias (float32[K]) when Bias.
type ConvForward struct {
	Conv
	Type       Type
	Bias, ReLU bool
}

// ConvBackwardData computes dx (+)= the gradient with respect to x.
// Buffers: dy, w, dx. With Accumulate it adds to dx.
type ConvBackwardData struct {
	Conv
	Type       Type
	Accumulate bool
}

// ConvBackwardWeight computes dw (float32 KRSC) and, when Bias, dbias (float32[K]).
// Buffers: x, dy, dw, and dbias when Bias.
type ConvBackwardWeight struct {
	Conv
	Type Type
	Bias bool
}

// BatchNormForward normalises each of C channels over Rows = N*H*W positions,
// then adds the residual, then applies ReLU, as asked. Training uses the batch's
// biased variance, saves mean and 1/sqrt(var+Eps), and updates the running
// statistics with Momentum and the unbiased variance, as PyTorch does;
// evaluation uses the running ones.
// Buffers: x, y, gamma, beta, running mean, running var, saved mean, saved
// invstd (all float32[C] but x, y), and residual (like x) when Residual.
type BatchNormForward struct {
	Rows, C        int
	Type           Type
	Eps, Momentum  float32
	Train          bool
	ReLU, Residual bool
}

// BatchNormBackward is its gradient in training mode. With ReLU, dy is masked
// where y is not positive; with Residual the masked dy is also written to dres.
// Buffers: dy, x, y, gamma, saved mean, saved invstd, dx, dgamma, dbeta, and
// dres when Residual. dx may be dy's buffer.
type BatchNormBackward struct {
	Rows, C        int
	Type           Type
	ReLU, Residual bool
}

// ReLUBackward computes dx = dy where y > 0, else 0. Buffers: dy, y, dx. dx may be dy's buffer.
type ReLUBackward struct {
	N    int // elements
	Type Type
}

// Add computes y = a + b. Buffers: a, b, y. y may be either input's buffer.
type Add struct {
	N    int
	Type Type
}

// MaxPool is a 2-D max pooling; padding never wins. OutH = (H+2*Pad-Size)/Stride+1.
// Forward buffers: x, y, index (uint8 per output: position in the window, row
// major, counted from the padded corner; the first maximum wins).
type MaxPool struct {
	N, H, W, C        int
	Size, Stride, Pad int
	Type              Type
}

// MaxPoolBackward scatters dy to the saved positions; dx is written whole.
// Buffers: dy, index, dx.
type MaxPoolBackward struct{ MaxPool }

// AvgPool averages over all H*W positions: y is [N,C]. Buffers: x, y.
type AvgPool struct {
	N, H, W, C int
	Type       Type
}

// AvgPoolBackward spreads dy/(H*W). Buffers: dy [N,C], dx.
type AvgPoolBackward struct{ AvgPool }

// Linear computes y[N,Out] = x[N,In] w^T + bias, w is [Out,In]. y is float32
// (logits). Buffers: x, w, y, bias.
type Linear struct {
	N, In, Out int
	Type       Type
}

// LinearBackward computes dx (Type), dw and dbias (float32) from dy (float32).
// Buffers: dy, x, w, dx, dw, dbias.
type LinearBackward struct{ Linear }

// SoftmaxXent computes, per sample, softmax cross-entropy against an int32
// label, the batch's mean loss, the number of top-1 hits, and the gradient
// dlogits = (softmax - onehot) / N * the loss scale.
// Buffers: logits (float32 [N,C]), labels (int32[N]), metrics (float32[2]: mean
// loss, hits), dlogits (float32), hyper (float32[HyperLen]).
type SoftmaxXent struct{ N, C int }

// Hyper-parameters live in device memory, so that they change without a new
// plan or a new capture. Indices into the hyper buffer:
const (
	HyperLR = iota
	HyperMomentum
	HyperWeightDecay
	HyperLossScale // SoftmaxXent multiplies dlogits by it
	HyperSkip      // SGD does nothing when non-zero: a gradient overflowed
	HyperGrowth    // good steps since the loss scale last changed
	HyperGradScale // the loss scale that the gradients were computed with; SGD divides by it
	HyperLen       = 8
)

// SGD is PyTorch's: g = grad/scale + decay*w; m = momentum*m + g; w -= lr*m, with
// scale in HyperGradScale.
// When Copy is a 16-bit type, the updated weights are also written in it.
// Buffers: w, grad, momentum (all float32), hyper, and the copy when Copy != F32.
type SGD struct {
	N    int
	Copy Type
}

// ScaleCheck looks for non-finite gradients, sets HyperSkip, keeps the loss scale
// they were computed with in HyperGradScale for SGD, and adapts the loss scale for
// the next ones: halved on overflow, doubled after 2000 good steps (PyTorch's
// GradScaler). Without it, HyperGradScale is to be HyperLossScale.
// Buffers: grad (float32[N]), hyper.
type ScaleCheck struct{ N int }

// Cast converts N float32 to Type. Buffers: x, y.
type Cast struct {
	N    int
	Type Type
}

// Zero clears N bytes. Buffers: x.
type Zero struct{ N int }

// Augment turns uint8 NHWC pixels into normalised activations on the device:
// shifted by the sample's crop offset with zero padding, flipped, normalised.
// The normalised value of padding is that of a zero pixel, as on the host.
// Buffers: pixels (uint8 [N,H,W,C]), aug (int32 [N,AugLen]), y ([N,H,W,CPad] of Type).
type Augment struct {
	N, H, W, C int
	CPad       int // channels of y; those past C are zero
	Mean, Std  [4]float32
	Type       Type
}

// Augmentation of one sample, in the aug buffer.
const (
	AugDY = iota // rows: output (i,j) shows input (i+dy, j+dx), zero outside
	AugDX
	AugFlip // 1: mirrored left to right, after the shift
	AugLen  = 4
)

// PadChannels copies float32 [Rows,C] into [Rows,CPad] of Type, zeros behind.
// Buffers: x, y.
type PadChannels struct {
	Rows, C, CPad int
	Type          Type
}
