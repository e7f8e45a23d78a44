package trace

import (
	"math"
	"math/bits"
	"slices"
)

// exactValues is how many values a distribution keeps as they are.
const exactValues = 512

// Distribution tells quantiles of times in ns, in bounded memory. Up to exactValues values they are
// exact. Beyond that they are within 0.8 %, from a histogram whose buckets are 1/64 of a power of
// two wide.
type Distribution struct {
	n      int64
	exact  []int64  // all values, while they are few
	base   int      // the bucket of counts[0]
	counts []uint32 // by bucket, once there are many values
}

// Add counts a value; a negative one counts as 0.
func (d *Distribution) Add(v int64) {
	v = max(v, 0)
	d.n++
	if d.counts == nil && d.n <= exactValues {
		d.exact = append(d.exact, v)
		return
	}
	for _, e := range d.exact {
		d.count(e)
	}
	d.exact = nil
	d.count(v)
}

// N returns the number of values.
func (d *Distribution) N() int64 { return d.n }

const subBits = 6 // a power of two has 2^subBits buckets

// bucketOf numbers the buckets by size; values below 2^subBits have one each.
func bucketOf(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-1-subBits)
	return shift<<subBits + int(v>>shift)
}

// bucketMiddle returns the middle of a bucket, which stands for all its values.
func bucketMiddle(b int) int64 {
	shift := max(0, b>>subBits-1)
	low := int64(b-shift<<subBits) << shift
	return low + (int64(1)<<shift-1)/2
}

func (d *Distribution) count(v int64) {
	b := bucketOf(v)
	switch {
	case len(d.counts) == 0:
		d.base, d.counts = b, make([]uint32, 1, 64)
	case b < d.base:
		d.counts = append(make([]uint32, d.base-b, d.base-b+len(d.counts)), d.counts...)
		d.base = b
	case b >= d.base+len(d.counts):
		d.counts = append(d.counts, make([]uint32, b-d.base-len(d.counts)+1)...)
	}
	if c := &d.counts[b-d.base]; *c < math.MaxUint32 {
		*c++
	}
}

// Count adds to counts[i] how many values v have edges[i] <= v < edges[i+1]. Edges ascend, and
// there is one more of them than of counts.
func (d *Distribution) Count(edges, counts []int64) {
	add := func(v, n int64) {
		if i, at := slices.BinarySearch(edges, v); at && i < len(counts) {
			counts[i] += n
		} else if !at && i > 0 && i < len(edges) {
			counts[i-1] += n
		}
	}
	for _, v := range d.exact {
		add(v, 1)
	}
	for i, n := range d.counts {
		add(bucketMiddle(d.base+i), int64(n))
	}
}

// Rank returns the share of the values that are smaller than v, 0 to 1. It is 0 without values.
func (d *Distribution) Rank(v int64) float64 {
	if d.n == 0 {
		return 0
	}
	var below int64
	for _, e := range d.exact {
		if e < v {
			below++
		}
	}
	for i, c := range d.counts {
		if d.base+i >= bucketOf(max(v, 0)) {
			break
		}
		below += int64(c)
	}
	return float64(below) / float64(d.n)
}

func (d *Distribution) clone() Distribution {
	c := *d
	c.exact, c.counts = slices.Clone(d.exact), slices.Clone(d.counts)
	return c
}

// Quantile returns the quantile q of the values of all distributions together: the smallest value
// such that the share q of all values is no larger (the nearest rank). It is 0 without values.
func Quantile(q float64, of ...*Distribution) int64 {
	var n int64
	exact := true
	for _, d := range of {
		n += d.n
		exact = exact && d.counts == nil
	}
	if n == 0 {
		return 0
	}
	rank := min(max(int64(math.Ceil(q*float64(n))), 1), n) // from 1
	if exact {
		var all []int64
		for _, d := range of {
			all = append(all, d.exact...)
		}
		slices.Sort(all)
		return all[rank-1]
	}
	var sum Distribution
	for _, d := range of {
		for _, v := range d.exact {
			sum.count(v)
		}
		for i, c := range d.counts {
			if c > 0 {
				sum.count(bucketMiddle(d.base + i))
				sum.counts[d.base+i-sum.base] += c - 1
			}
		}
	}
	for i, c := range sum.counts {
		if rank -= int64(c); rank <= 0 {
			return bucketMiddle(sum.base + i)
		}
	}
	return bucketMiddle(sum.base + len(sum.counts) - 1)
}
