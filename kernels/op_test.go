package kernels

import (
	"math/rand/v2"
	"testing"
)

var all = []Op{
	ConvForward{Conv: convs[1], Bias: true, ReLU: true}, ConvBackwardData{Conv: convs[1], Accumulate: true},
	ConvBackwardWeight{Conv: convs[1], Bias: true},
	BatchNormForward{Rows: 4, C: 3, Eps: 1e-5, Momentum: 0.1, Train: true, Residual: true}, BatchNormBackward{Rows: 4, C: 3, Residual: true},
	ReLUBackward{N: 5}, Add{N: 5}, MaxPool{N: 1, H: 4, W: 4, C: 2, Size: 2, Stride: 2},
	MaxPoolBackward{MaxPool{N: 1, H: 4, W: 4, C: 2, Size: 2, Stride: 2}}, AvgPool{N: 2, H: 3, W: 3, C: 2},
	AvgPoolBackward{AvgPool{N: 2, H: 3, W: 3, C: 2}}, Linear{N: 2, In: 3, Out: 4}, LinearBackward{Linear{N: 2, In: 3, Out: 4}},
	SoftmaxXent{N: 2, C: 3}, Optimizer{N: 3, Copy: F16}, Optimizer{Rule: SGD, N: 3}, Optimizer{Rule: Nesterov, N: 3}, Optimizer{Rule: Adagrad, N: 3},
	Optimizer{Rule: Adadelta, N: 3}, Optimizer{Rule: Adam, N: 3}, Optimizer{Rule: AdamW, N: 3, Exempt: 1}, ScaleCheck{N: 3}, Cast{N: 3, Type: BF16}, StackFrames{N: 1, T: 3, Pixels: 2, C: 2, Taps: 3, Pad: 1}, StackFramesBackward{StackFrames{N: 1, T: 3, Pixels: 2, C: 2, Taps: 2}},
	Dropout{N: 5, Rate: 0.5}, NextNoise{}, Zero{N: 5},
	Augment{N: 1, H: 2, W: 2, C: 3, CPad: 4, Std: [4]float32{1, 1, 1, 1}}, PadChannels{Rows: 2, C: 3, CPad: 4},
}

// Every operation must run on buffers of exactly the sizes that Args gives, and
// leave its inputs as they were.
func TestArgsFitReference(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	names := map[string]bool{}
	for _, op := range all {
		if names[op.Name()] {
			t.Errorf("two operations are named %s", op.Name())
		}
		names[op.Name()] = true
		args := op.Args()
		bufs, before := make([][]byte, len(args)), make([][]byte, len(args))
		var sum float64
		for i, a := range args {
			bufs[i] = make([]byte, a.Size())
			if a.Role != Out && a.Type != I32 && a.Type != U8 {
				Store(bufs[i], a.Type, random(r, a.Len))
			}
			before[i] = append([]byte(nil), bufs[i]...)
			sum += float64(a.Size())
		}
		op.Reference(bufs)
		for i, a := range args {
			if a.Role == In && string(bufs[i]) != string(before[i]) {
				t.Errorf("%s changed its input %s", op.Name(), a.Name)
			}
		}
		if b := op.Bytes(); b < sum || b > 2*sum {
			t.Errorf("%s: %g bytes moved, buffers hold %g", op.Name(), b, sum)
		}
	}
}

func TestCosts(t *testing.T) {
	c := Conv{N: 2, H: 8, W: 8, C: 16, K: 32, R: 3, S: 3, Stride: 2, Pad: 1}
	if f := (ConvForward{Conv: c}).FLOPs(); f != 2*2*4*4*32*9*16 {
		t.Errorf("conv FLOPs = %g", f)
	}
	if b := (ConvForward{Conv: c, Type: F16}).Bytes(); b != 2*(2*8*8*16+32*9*16+2*4*4*32) {
		t.Errorf("conv bytes = %g", b)
	}
	if b := (Optimizer{N: 10}).Bytes(); b != 10*4*5+HyperLen*4 {
		t.Errorf("momentum bytes = %g", b)
	}
}
