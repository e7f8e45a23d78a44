package pixels

import "math"

// weightBits is the fixed-point precision of the filter's weights. With bytes and
// weights that sum to one, sums stay below 2^30.
const weightBits = 22

// taps is a one-dimensional resampling filter: output i is the sum of width[i]
// inputs from first[i] on, weighted by weight[i*size:].
type taps struct {
	size         int
	first, width []int32
	weight       []int32
	real         []float64

	pairs int     // of taps, where there are most
	split []int16 // weights as resize_amd64.h wants them
}

// set computes the triangle filter that resamples in positions to outs ones, for
// the outputs [from,from+n). The filter is as wide as an output pixel, or an
// input pixel when that is wider: that is the antialiasing. See P. Heckbert,
// "Fundamentals of Texture Mapping and Image Warping", 1989, section 3.5.
func (t *taps) set(in, outs, from, n int) {
	scale, support := filter(in, outs)
	wide := 2 * max(in, outs)
	t.size = int(math.Ceil(support))*2 + 1
	t.first, t.width = sized(t.first, n), sized(t.width, n)
	t.weight, t.real = sized(t.weight, n*t.size), sized(t.real, t.size)
	for i := range n {
		centre := centre(from+i, scale)
		lo, hi := around(centre, support, in)
		sum := 0.0
		for k := lo; k < hi; k++ {
			// In whole numbers, as a device computes it: distances in units of 1/(2 outs).
			d := (2*k+1)*outs - (2*(from+i)+1)*in
			w := float64(max(wide-max(d, -d), 0))
			t.real[k-lo] = w
			sum += w
		}
		t.first[i], t.width[i] = int32(lo), int32(hi-lo)
		for k := range hi - lo {
			w := t.real[k]
			if sum != 0 {
				w /= sum
			}
			t.weight[i*t.size+k] = int32(float64(w*(1<<weightBits)) + 0.5)
		}
		t.trim(i)
	}
}

func filter(in, outs int) (scale, support float64) {
	scale = float64(in) / float64(outs)
	return scale, max(scale, 1)
}

// centre returns where an output lies among the inputs. The conversion prevents a fused multiply-add.
func centre(output int, scale float64) float64 { return float64((float64(output) + 0.5) * scale) }

// around returns the inputs [lo,hi) that the filter may reach.
func around(centre, support float64, in int) (lo, hi int) {
	return max(int(centre-support+0.5), 0), min(int(centre+support+0.5), in)
}

// Reach returns the inputs [lo,hi) that the outputs [from,from+n) of a resize may need.
func Reach(in, outs, from, n int) (lo, hi int) {
	scale, support := filter(in, outs)
	lo, _ = around(centre(from, scale), support, in)
	_, hi = around(centre(from+n-1, scale), support, in)
	return lo, hi
}

// trim leaves out weights of zero at the ends; one tap stays.
func (t *taps) trim(i int) {
	w := t.weights(i)
	skip := 0
	for len(w) > 1 && w[len(w)-1] == 0 {
		w = w[:len(w)-1]
	}
	for len(w) > skip+1 && w[skip] == 0 {
		skip++
	}
	copy(w, w[skip:])
	t.first[i] += int32(skip)
	t.width[i] = int32(len(w) - skip)
}

// weights returns the weights of output i.
func (t *taps) weights(i int) []int32 { return t.weight[i*t.size : i*t.size+int(t.width[i])] }

// splitWeights splits the weights: groups of four upper and four lower halves.
func (t *taps) splitWeights() {
	most := int32(0)
	for _, n := range t.width {
		most = max(most, n)
	}
	t.pairs = int(most+1) / 2
	room := t.room()
	t.split = sized(t.split, len(t.width)*room)
	clear(t.split)
	for i := range t.width {
		to := t.split[i*room : (i+1)*room]
		for k, w := range t.weights(i) {
			at := k/4*8 + k%4
			to[at], to[at+4] = int16(w>>11), int16(w&(1<<11-1))
		}
	}
}

// room returns how many split weights an output has.
func (t *taps) room() int { return (t.pairs + 1) / 2 * 8 }

// span returns the inputs [from,to) that the outputs need, and counts them from there on.
func (t *taps) span() (from, to int) {
	from, to = int(t.first[0]), 0
	for i, f := range t.first {
		from, to = min(from, int(f)), max(to, int(f+t.width[i]))
	}
	for i := range t.first {
		t.first[i] -= int32(from)
	}
	return from, to
}
