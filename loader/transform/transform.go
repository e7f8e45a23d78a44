// Package transform makes training samples of decoded ones. It has CIFAR's padded
// random crop, ImageNet's random resized crop, the horizontal flip and the
// normalisation, all as torchvision does them.
//
// Every transform works on both sides. Host does all of it, into float32 HWC. Device leaves
// uint8 pixels and the parameters of kernels.Augment, and the device shifts, flips and
// normalises. Given the same generator the two agree. Both draw the same random numbers in the
// same order: the crop's row, the crop's column, the flip (for the resized crop: size and shape
// before the row). The crop comes before the flip. A resized crop knows before it sees an image
// which part it will read (Needs).
package transform

// Norm is a normalisation of RGB pixels: (v/255 - Mean) / Std.
type Norm struct {
	mean, std [4]float32
	table     [3][256]float32 // the result for each value of each channel
	factors   [3 * 24]float32 // for C, 24 values each: mean, 1/std, and what the float of 1/std cannot hold
	divides   bool            // C, which multiplies, gives exactly these results
}

// These are the constants of the data sets' training pixels, in units of [0,1], that
// everybody's CIFAR-10 and ImageNet recipes use.
var (
	cifarMean    = [3]float32{0.4914, 0.4822, 0.4465}
	cifarStd     = [3]float32{0.2023, 0.1994, 0.2010}
	imageNetMean = [3]float32{0.485, 0.456, 0.406}
	imageNetStd  = [3]float32{0.229, 0.224, 0.225}
)

// NewNorm tabulates a normalisation. The arithmetic is torchvision's, in float32:
// ToTensor divides by 255, Normalize subtracts and divides.
func NewNorm(mean, std [3]float32) Norm {
	var n Norm
	n.std[3] = 1
	copy(n.mean[:], mean[:])
	copy(n.std[:], std[:])
	for c := range n.table {
		for v := range n.table[c] {
			n.table[c][v] = (float32(v)/255 - mean[c]) / std[c]
		}
	}
	for i := range 24 {
		s := std[i%3]
		n.factors[i], n.factors[24+i] = mean[i%3], 1/s
		n.factors[48+i] = float32(1/float64(s) - float64(n.factors[24+i]))
	}
	n.divides = native && n.inC()
	return n
}

// inC lets C normalise every value of every channel, and reports whether the results equal the
// table.
func (n *Norm) inC() bool {
	var in [3 * 256]byte
	var got [3 * 256]float32
	for i := range in {
		in[i] = byte(i / 3)
	}
	n.nativeRow(got[:], in[:])
	for i, v := range got {
		if v != n.table[i%3][i/3] {
			return false
		}
	}
	return true
}

// Normalisation returns mean and standard deviation; the fourth channel is 0, 1.
func (n *Norm) Normalisation() (mean, std [4]float32) { return n.mean, n.std }

// row normalises RGB pixels; dst has as many elements as src.
func (n *Norm) row(dst []float32, src []byte) {
	if n.divides && len(src) >= 24 {
		n.nativeRow(dst, src)
		return
	}
	r, g, b := &n.table[0], &n.table[1], &n.table[2]
	for len(src) >= 12 && len(dst) >= 12 { // four pixels a round
		s, d := src[:12:12], dst[:12:12]
		d[0], d[1], d[2] = r[s[0]], g[s[1]], b[s[2]]
		d[3], d[4], d[5] = r[s[3]], g[s[4]], b[s[5]]
		d[6], d[7], d[8] = r[s[6]], g[s[7]], b[s[8]]
		d[9], d[10], d[11] = r[s[9]], g[s[10]], b[s[11]]
		src, dst = src[12:], dst[12:]
	}
	for len(src) >= 3 && len(dst) >= 3 {
		dst[0], dst[1], dst[2] = r[src[0]], g[src[1]], b[src[2]]
		src, dst = src[3:], dst[3:]
	}
}

// mirrored does what row does, with the pixels in reverse order.
func (n *Norm) mirrored(dst []float32, src []byte) {
	r, g, b := &n.table[0], &n.table[1], &n.table[2]
	for len(src) >= 12 && len(dst) >= 12 {
		s, d := src[len(src)-12:], dst[:12:12]
		s = s[:12:12]
		d[0], d[1], d[2] = r[s[9]], g[s[10]], b[s[11]]
		d[3], d[4], d[5] = r[s[6]], g[s[7]], b[s[8]]
		d[6], d[7], d[8] = r[s[3]], g[s[4]], b[s[5]]
		d[9], d[10], d[11] = r[s[0]], g[s[1]], b[s[2]]
		src, dst = src[:len(src)-12], dst[12:]
	}
	for len(src) >= 3 && len(dst) >= 3 {
		s := src[len(src)-3:]
		dst[0], dst[1], dst[2] = r[s[0]], g[s[1]], b[s[2]]
		src, dst = src[:len(src)-3], dst[3:]
	}
}

// padding writes the value of zero pixels.
func (n *Norm) padding(dst []float32) {
	r, g, b := n.table[0][0], n.table[1][0], n.table[2][0]
	for len(dst) >= 3 {
		dst[0], dst[1], dst[2] = r, g, b
		dst = dst[3:]
	}
}
