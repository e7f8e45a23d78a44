package loader

// Layout is where the parts of a batch of N samples lie in Batch.Host, in bytes.
type Layout struct {
	N      int
	Sample int // bytes of one sample
	Labels int // offset of int32[N]
	Aug    int // offset of int32[N][4]; 0 without device transforms
	Size   int
}

// align is the boundary at which each part starts: a cache line, and more than
// any vector load or cp.async needs.
const align = 64

// NewLayout lays out n samples of a data set: float32, or uint8 with the
// augmentation parameters when the device does the transforms.
func NewLayout(info Info, n int, device bool) Layout {
	l := Layout{N: n, Sample: info.H * info.W * info.C * 4}
	if device {
		l.Sample /= 4
	}
	l.Labels = roundUp(n * l.Sample)
	l.Size = l.Labels + roundUp(n*4)
	if device {
		l.Aug = l.Size
		l.Size += roundUp(n * 16)
	}
	return l
}

func roundUp(n int) int { return (n + align - 1) / align * align }
