package nn

import "fmt"

// buildCNN: three convolutions of 3x3, two max-pools, a global average pool. The
// global pool makes it fit any input size.
func buildCNN(b *builder) {
	x := b.conv("conv1", 0, 32, 3, 1, 1, true)
	x = b.maxPool("pool1", x, 2, 2, 0)
	x = b.conv("conv2", x, 64, 3, 1, 1, true)
	x = b.maxPool("pool2", x, 2, 2, 0)
	x = b.conv("conv3", x, 128, 3, 1, 1, true)
	x = b.avgPool("avgpool", x)
	b.linear("fc", x, b.m.Classes)
}

// cifarLimit is the largest side for which resnet18 takes its CIFAR form.
const cifarLimit = 64

// buildResNet18 is ResNet-18 (He et al., "Deep residual learning for image
// recognition", 2015) with torchvision's module names. Samples of up to 64x64
// take the CIFAR form (3x3 stem, stride 1, no max-pool); larger ones the
// ImageNet form (7x7 stem, stride 2, then a 3x3 max-pool, stride 2). Shortcuts
// that change shape are 1x1 projections with batch norm (option B).
func buildResNet18(b *builder) {
	var x int
	if max(b.m.In.H, b.m.In.W) <= cifarLimit {
		b.m.Form = "CIFAR form: 3x3 stem, no max-pool"
		x = b.conv("conv1", 0, 64, 3, 1, 1, false)
		x = b.norm("bn1", x, -1, true)
	} else {
		b.m.Form = "ImageNet form: 7x7 stem, max-pool"
		x = b.conv("conv1", 0, 64, 7, 2, 3, false)
		x = b.norm("bn1", x, -1, true)
		x = b.maxPool("maxpool", x, 3, 2, 1)
	}
	for stage, k := range []int{64, 128, 256, 512} {
		for i := range 2 {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			x = basicBlock(b, fmt.Sprintf("layer%d.%d.", stage+1, i), x, k, stride)
		}
	}
	x = b.avgPool("avgpool", x)
	b.linear("fc", x, b.m.Classes)
}

func basicBlock(b *builder, name string, x, k, stride int) int {
	begin := len(b.m.nodes)
	y := b.conv(name+"conv1", x, k, 3, stride, 1, false)
	y = b.norm(name+"bn1", y, -1, true)
	y = b.conv(name+"conv2", y, k, 3, 1, 1, false)
	// The state_dict order has bn2 before the shortcut's layers, while bn2, fused
	// with the residual and the ReLU, runs after them.
	at := len(b.m.params)
	res := x
	if stride != 1 || b.m.shape(x).C != k {
		res = b.conv(name+"downsample.0", x, k, 1, stride, 0, false)
		res = b.norm(name+"downsample.1", res, -1, false)
	}
	y = b.norm(name+"bn2", y, res, true)
	b.m.nodes[y-1].begin = begin
	b.moveToFront(at)
	return y
}

// moveToFront puts the last two parameters, a batch norm's, at index at.
func (b *builder) moveToFront(at int) {
	p := b.m.params
	n := len(p) - 2
	if n == at {
		return
	}
	moved := append(append([]Param{}, p[n:]...), p[at:n]...)
	copy(p[at:], moved)
	shift := func(i *int) {
		switch {
		case *i >= n:
			*i += at - n
		case *i >= at:
			*i += 2
		}
	}
	for i := range b.m.nodes {
		shift(&b.m.nodes[i].weight)
		shift(&b.m.nodes[i].bias)
	}
}
