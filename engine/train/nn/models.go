package nn

import (
	"fmt"
	"math"
)

// definitions are the models, each made of its layers by a function of this file.
var definitions = []definition{
	{name: "cnn", least: 4, build: cnn},
	{name: "resnet18", least: 8, build: resnet(basic, 2, 2, 2, 2), residual: true},
	{name: "resnet34", least: 8, build: resnet(basic, 3, 4, 6, 3), residual: true},
	{name: "resnet50", least: 8, build: resnet(bottleneck, 3, 4, 6, 3), residual: true},
	{name: "cnn3d", least: 4, build: cnn3d, frames: 2},
}

// cnn has three convolutions of 3x3, two max-pools and a global average pool. The
// latter makes it fit any input size.
func cnn(b *builder) {
	x := b.conv("conv1", 0, 32, window{3, 1, 1, 1}, biasReLU)
	x = b.maxPool("pool1", x, window{2, 2, 0, 1})
	x = b.conv("conv2", x, 64, window{3, 1, 1, 1}, biasReLU)
	x = b.maxPool("pool2", x, window{2, 2, 0, 1})
	x = b.conv("conv3", x, 128, window{3, 1, 1, 1}, biasReLU)
	x = b.avgPool("avgpool", x)
	b.linear("fc", x, b.m.Classes)
}

// cnn3d is cnn on clips: its filters are 3x3x3, and the second pool takes two frames.
func cnn3d(b *builder) {
	x := b.conv("conv1", 0, 32, cube, biasReLU)
	x = b.maxPool("pool1", x, window{2, 2, 0, 1})
	x = b.conv("conv2", x, 64, cube, biasReLU)
	x = b.maxPool("pool2", x, window{2, 2, 0, 2})
	x = b.conv("conv3", x, 128, cube, biasReLU)
	x = b.avgPool("avgpool", x)
	b.linear("fc", x, b.m.Classes)
}

var cube = window{3, 1, 1, 3}

// The stems of a ResNet.
const (
	StemCIFAR    = "cifar"    // 3x3, stride 1, no max-pool
	StemImageNet = "imagenet" // 7x7, stride 2, then a 3x3 max-pool, stride 2
)

// Stems lists what Spec.Stem may be. When it is empty, the samples' size decides.
func Stems() []string { return []string{StemCIFAR, StemImageNet} }

// cifarLimit is the largest side for which a ResNet takes its CIFAR form by itself.
const cifarLimit = 64

// resnet returns a residual network of four stages of blocks (He et al., "Deep residual
// learning for image recognition", 2015), with torchvision's module names. Shortcuts
// that change shape are 1x1 projections (option B).
func resnet(add addBlock, stages ...int) func(*builder) {
	return func(b *builder) {
		b.blocks = stages[0] + stages[1] + stages[2] + stages[3]
		var x int
		if b.spec.stem() == StemCIFAR {
			b.m.Form = "CIFAR form: 3x3 stem, no max-pool"
			x = b.convNorm("conv1", "bn1", 0, 64, window{3, 1, 1, 1}, 1)
		} else {
			b.m.Form = "ImageNet form: 7x7 stem, max-pool"
			x = b.convNorm("conv1", "bn1", 0, 64, window{7, 2, 3, 1}, 1)
			x = b.maxPool("maxpool", x, window{3, 2, 1, 1})
		}
		for stage, k := range []int{64, 128, 256, 512} {
			for i := range stages[stage] {
				stride := 1
				if stage > 0 && i == 0 {
					stride = 2
				}
				x = add(b, fmt.Sprintf("layer%d.%d.", stage+1, i), x, k, stride)
			}
		}
		x = b.avgPool("avgpool", x)
		b.linear("fc", x, b.m.Classes)
	}
}

// addBlock adds a residual block that reads x, and returns its output's value.
type addBlock func(b *builder, name string, x, k, stride int) int

// basic adds two convolutions of 3x3.
func basic(b *builder, name string, x, k, stride int) int {
	begin, share := len(b.m.nodes), math.Pow(float64(b.blocks), -1./2)
	y := b.convNorm(name+"conv1", name+"bn1", x, k, window{3, stride, 1, 1}, share)
	y = b.lastConv(name+"conv2", y, k, window{3, 1, 1, 1})
	return b.join(name, "bn2", begin, x, y, stride)
}

// bottleneck adds a convolution of 3x3 between two of 1x1. The first narrows its input, the
// last makes the output four times as wide. The stride is in the 3x3, as in torchvision.
func bottleneck(b *builder, name string, x, k, stride int) int {
	begin, share := len(b.m.nodes), math.Pow(float64(b.blocks), -1./4)
	y := b.convNorm(name+"conv1", name+"bn1", x, k, window{1, 1, 0, 1}, share)
	y = b.convNorm(name+"conv2", name+"bn2", y, k, window{3, stride, 1, 1}, share)
	y = b.lastConv(name+"conv3", y, 4*k, window{1, 1, 0, 1})
	return b.join(name, "bn3", begin, x, y, stride)
}
