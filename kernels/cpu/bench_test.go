//go:build unix

package cpu

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"dev.gpustall/kernels"
)

// resnet18 is the distinct convolutions of ResNet-18's CIFAR form at batch 128
// and how often each occurs.
var resnet18 = []struct {
	name  string
	conv  kernels.Conv
	count int
}{
	{"stem", kernels.Conv{N: 128, H: 32, W: 32, C: 3, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}, 1},
	{"layer1", kernels.Conv{N: 128, H: 32, W: 32, C: 64, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}, 4},
	{"layer2", kernels.Conv{N: 128, H: 16, W: 16, C: 128, K: 128, R: 3, S: 3, Stride: 1, Pad: 1}, 3},
	{"layer3", kernels.Conv{N: 128, H: 8, W: 8, C: 256, K: 256, R: 3, S: 3, Stride: 1, Pad: 1}, 3},
	{"layer4", kernels.Conv{N: 128, H: 4, W: 4, C: 512, K: 512, R: 3, S: 3, Stride: 1, Pad: 1}, 3},
	{"layer2.0.conv1", kernels.Conv{N: 128, H: 32, W: 32, C: 64, K: 128, R: 3, S: 3, Stride: 2, Pad: 1}, 1},
	{"layer3.0.conv1", kernels.Conv{N: 128, H: 16, W: 16, C: 128, K: 256, R: 3, S: 3, Stride: 2, Pad: 1}, 1},
	{"layer4.0.conv1", kernels.Conv{N: 128, H: 8, W: 8, C: 256, K: 512, R: 3, S: 3, Stride: 2, Pad: 1}, 1},
	{"layer2.0.downsample", kernels.Conv{N: 128, H: 32, W: 32, C: 64, K: 128, R: 1, S: 1, Stride: 2}, 1},
	{"layer3.0.downsample", kernels.Conv{N: 128, H: 16, W: 16, C: 128, K: 256, R: 1, S: 1, Stride: 2}, 1},
	{"layer4.0.downsample", kernels.Conv{N: 128, H: 8, W: 8, C: 256, K: 512, R: 1, S: 1, Stride: 2}, 1},
}

// resnet50 is the distinct convolutions of ResNet-50 at 224x224 and batch 8 that are matrix products.
var resnet50 = []kernels.Conv{
	{N: 8, H: 56, W: 56, C: 64, K: 64, R: 1, S: 1, Stride: 1},
	{N: 8, H: 56, W: 56, C: 64, K: 256, R: 1, S: 1, Stride: 1},
	{N: 8, H: 56, W: 56, C: 256, K: 64, R: 1, S: 1, Stride: 1},
	{N: 8, H: 56, W: 56, C: 256, K: 128, R: 1, S: 1, Stride: 1},
	{N: 8, H: 28, W: 28, C: 128, K: 512, R: 1, S: 1, Stride: 1},
	{N: 8, H: 28, W: 28, C: 512, K: 128, R: 1, S: 1, Stride: 1},
	{N: 8, H: 28, W: 28, C: 512, K: 256, R: 1, S: 1, Stride: 1},
	{N: 8, H: 14, W: 14, C: 256, K: 1024, R: 1, S: 1, Stride: 1},
	{N: 8, H: 14, W: 14, C: 1024, K: 256, R: 1, S: 1, Stride: 1},
	{N: 8, H: 14, W: 14, C: 1024, K: 512, R: 1, S: 1, Stride: 1},
	{N: 8, H: 7, W: 7, C: 512, K: 2048, R: 1, S: 1, Stride: 1},
	{N: 8, H: 7, W: 7, C: 2048, K: 512, R: 1, S: 1, Stride: 1},
	{N: 8, H: 56, W: 56, C: 256, K: 512, R: 1, S: 1, Stride: 2},
	{N: 8, H: 28, W: 28, C: 512, K: 1024, R: 1, S: 1, Stride: 2},
	{N: 8, H: 14, W: 14, C: 1024, K: 2048, R: 1, S: 1, Stride: 2},
	{N: 8, H: 56, W: 56, C: 128, K: 128, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 8, H: 28, W: 28, C: 256, K: 256, R: 3, S: 3, Stride: 2, Pad: 1},
	{N: 8, H: 14, W: 14, C: 512, K: 512, R: 3, S: 3, Stride: 2, Pad: 1},
}

// cpuTime is the processor time of all threads of this process: on a machine
// that others use too it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bench reports GFLOP/s as the operation counts them: what Winograd saves shows
// as more than the processor's peak.
func bench(b *testing.B, op kernels.Op) {
	p := NewPool(0)
	defer p.Close()
	r := rand.New(rand.NewPCG(1, 1))
	pl := bindAll(b, p, Call{op, buffers(r, op, func(name string, b []byte) bool {
		if name == "record" {
			return kernels.Examples(op, r, kernels.Ints(b))
		}
		return zeroed(name, b)
	})})
	pl.Run(0)
	busy := cpuTime()
	for b.Loop() {
		pl.Run(0)
	}
	busy = cpuTime() - busy
	b.ReportMetric(busy.Seconds()*1e3/float64(b.N), "cpu-ms/op")
	b.ReportMetric(op.FLOPs()*float64(b.N)/busy.Seconds()/1e9, "GFLOP/cpu-s")
	b.ReportMetric(op.FLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(op.Bytes()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}

func BenchmarkResNet18Conv(b *testing.B) {
	for _, l := range resnet18 {
		for _, t := range []kernels.Type{kernels.F32, kernels.BF16} {
			c := l.conv
			if l.name == "stem" && t == kernels.BF16 {
				c.C = 8 // as plans pad it
			}
			name := l.name + "/" + t.String()
			b.Run(name+"/forward", func(b *testing.B) { bench(b, kernels.ConvForward{Conv: c, Type: t}) })
			if l.name != "stem" { // nobody asks for the gradient of the pixels
				b.Run(name+"/data", func(b *testing.B) { bench(b, kernels.ConvBackwardData{Conv: c, Type: t}) })
			}
			b.Run(name+"/weight", func(b *testing.B) { bench(b, kernels.ConvBackwardWeight{Conv: c, Type: t}) })
		}
	}
}

func BenchmarkResNet50Conv(b *testing.B) {
	for _, c := range resnet50 {
		name := fmt.Sprintf("%dx%d,%d-%d,%dx%d,%d", c.H, c.W, c.C, c.K, c.R, c.S, c.Stride)
		b.Run(name+"/forward", func(b *testing.B) { bench(b, kernels.ConvForward{Conv: c}) })
		b.Run(name+"/data", func(b *testing.B) { bench(b, kernels.ConvBackwardData{Conv: c}) })
		b.Run(name+"/weight", func(b *testing.B) { bench(b, kernels.ConvBackwardWeight{Conv: c}) })
	}
}

func BenchmarkBatchNorm(b *testing.B) {
	for _, c := range []int{64, 128, 256, 512} {
		rows := 128 * 1024 * 64 / c * 64 / c
		for _, t := range []kernels.Type{kernels.F32, kernels.BF16} {
			b.Run(fmt.Sprintf("c%d/%s/forward", c, t), func(b *testing.B) {
				bench(b, kernels.BatchNormForward{Rows: rows, C: c, Eps: 1e-5, Train: true, ReLU: true, Type: t})
			})
			b.Run(fmt.Sprintf("c%d/%s/backward", c, t), func(b *testing.B) {
				bench(b, kernels.BatchNormBackward{Rows: rows, C: c, ReLU: true, Type: t})
			})
		}
	}
}

func BenchmarkSmall(b *testing.B) {
	pool := kernels.MaxPool{N: 128, H: 32, W: 32, C: 32, Size: 2, Stride: 2}
	for _, op := range []kernels.Op{
		pool, kernels.MaxPoolBackward{MaxPool: pool}, kernels.ReLUBackward{N: 128 << 15}, kernels.Optimizer{N: 11 << 20},
		kernels.AvgPool{N: 128, H: 4, W: 4, C: 512}, kernels.Linear{N: 128, In: 512, Out: 10},
		kernels.LinearBackward{Linear: kernels.Linear{N: 128, In: 512, Out: 10}}, kernels.SoftmaxXent{N: 128, C: 10},
		kernels.Augment{N: 128, H: 32, W: 32, C: 3, CPad: 3, Std: [4]float32{1, 1, 1, 1}},
	} {
		b.Run(op.Name(), func(b *testing.B) { bench(b, op) })
	}
}

// BenchmarkTransforms makes a sample of 224x224.
func BenchmarkTransforms(b *testing.B) {
	r := kernels.Record{Words: 41, At: 5}
	for _, op := range []kernels.Op{
		kernels.Resample{N: 1, OutH: 224, OutW: 224, In: 3 * 256 * 256, Record: r}, kernels.Shift{N: 1, H: 224, W: 224, OutH: 224, OutW: 224, Record: r},
		kernels.Blur{N: 1, H: 224, W: 224, Taps: 23, Record: r}, kernels.Colours{N: 1, H: 224, W: 224, Record: r},
	} {
		b.Run(op.Name(), func(b *testing.B) { bench(b, op) })
	}
}
