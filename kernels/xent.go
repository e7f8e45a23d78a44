package kernels

import "math"

// SoftmaxXent computes the softmax cross-entropy of each sample against an int32 label. It
// writes the batch's mean loss, the number of top-1 hits, and the gradient
// dlogits = (softmax - target) / N * the loss scale. The target is 1 for the label. With
// Smoothing it is 1-Smoothing for the label plus Smoothing/C for each class.
// Buffers: logits (float32 [N,C]), labels (int32[N]), metrics (float32[2]: mean
// loss, hits), dlogits (float32), hyper (float32[HyperLen]).
type SoftmaxXent struct {
	N, C      int
	Smoothing float32 // 0 to 1
}

func (op SoftmaxXent) Name() string { return "softmax_xent" }

// FLOPs counts 5 per logit: maximum, difference, exponential, sum and scaling.
func (op SoftmaxXent) FLOPs() float64 { return 5 * float64(op.N*op.C) }
func (op SoftmaxXent) Bytes() float64 { return traffic(op.Args()) }

func (op SoftmaxXent) Args() []Arg {
	return []Arg{{"logits", In, F32, op.N * op.C}, {"labels", In, I32, op.N}, {"metrics", Out, F32, 2},
		{"dlogits", Out, F32, op.N * op.C}, {"hyper", In, F32, HyperLen}}
}

func (op SoftmaxXent) Reference(bufs [][]byte) {
	op.Ref(Floats(bufs[0]), Ints(bufs[1]), Floats(bufs[2]), Floats(bufs[3]), Floats(bufs[4]))
}

// Ref computes loss = mean of log(sum exp(z)) - the targets' mean of z, with z shifted
// by its maximum, and its gradient. The first of equal maxima is the prediction.
func (op SoftmaxXent) Ref(logits []float32, labels []int32, metrics, dlogits, hyper []float32) {
	var loss float64
	var hits int
	scale := float64(hyper[HyperLossScale]) / float64(op.N)
	each := float64(op.Smoothing) / float64(op.C)
	certain := 1 - float64(op.Smoothing)
	for n := range op.N {
		z, dz, label := logits[n*op.C:(n+1)*op.C], dlogits[n*op.C:(n+1)*op.C], int(labels[n])
		best := 0
		for c, v := range z {
			if v > z[best] {
				best = c
			}
		}
		if best == label {
			hits++
		}
		top := float64(z[best])
		var sum, all float64
		for _, v := range z {
			sum += math.Exp(float64(v) - top)
			all += float64(v) - top
		}
		loss += math.Log(sum) - certain*(float64(z[label])-top)
		if each > 0 {
			loss -= each * all
		}
		for c, v := range z {
			g := math.Exp(float64(v)-top)/sum - each
			if c == label {
				g -= certain
			}
			dz[c] = float32(g * scale)
		}
	}
	metrics[0], metrics[1] = float32(loss/float64(op.N)), float32(hits)
}
