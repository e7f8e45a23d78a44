package cpu

import (
	"testing"

	"dev.gpustall/kernels"
)

var resnet50 = []struct {
	name string
	conv kernels.Conv
}{
	{"l1.conv1", kernels.Conv{N: 8, H: 56, W: 56, C: 256, K: 64, R: 1, S: 1, Stride: 1}},
	{"l1.conv3", kernels.Conv{N: 8, H: 56, W: 56, C: 64, K: 256, R: 1, S: 1, Stride: 1}},
	{"l2.conv1", kernels.Conv{N: 8, H: 28, W: 28, C: 512, K: 128, R: 1, S: 1, Stride: 1}},
	{"l2.conv3", kernels.Conv{N: 8, H: 28, W: 28, C: 128, K: 512, R: 1, S: 1, Stride: 1}},
	{"l3.conv1", kernels.Conv{N: 8, H: 14, W: 14, C: 1024, K: 256, R: 1, S: 1, Stride: 1}},
	{"l3.conv3", kernels.Conv{N: 8, H: 14, W: 14, C: 256, K: 1024, R: 1, S: 1, Stride: 1}},
	{"l4.conv1", kernels.Conv{N: 8, H: 7, W: 7, C: 2048, K: 512, R: 1, S: 1, Stride: 1}},
	{"l4.conv3", kernels.Conv{N: 8, H: 7, W: 7, C: 512, K: 2048, R: 1, S: 1, Stride: 1}},
	{"l2.0.conv2", kernels.Conv{N: 8, H: 56, W: 56, C: 128, K: 128, R: 3, S: 3, Stride: 2, Pad: 1}},
	{"l4.0.conv2", kernels.Conv{N: 8, H: 14, W: 14, C: 512, K: 512, R: 3, S: 3, Stride: 2, Pad: 1}},
	{"l2.0.ds", kernels.Conv{N: 8, H: 56, W: 56, C: 256, K: 512, R: 1, S: 1, Stride: 2}},
	{"l4.0.ds", kernels.Conv{N: 8, H: 14, W: 14, C: 1024, K: 2048, R: 1, S: 1, Stride: 2}},
}

func BenchmarkZ50(b *testing.B) {
	for _, l := range resnet50 {
		b.Run(l.name+"/forward", func(b *testing.B) { bench(b, kernels.ConvForward{Conv: l.conv}) })
		b.Run(l.name+"/data", func(b *testing.B) { bench(b, kernels.ConvBackwardData{Conv: l.conv}) })
	}
}
