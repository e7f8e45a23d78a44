package loader

import "dev.gpustall/engine/trace"

// Batch is a slot: preallocated host memory that a worker fills and the engine
// copies to the device. It belongs to the caller of Next until Release.
//
// Host holds everything that one copy must carry; each part starts at a multiple of 64 bytes. First
// come the samples (float32 NHWC, clips NTHWC, or uint8 when Device is set), then the labels
// (int32[N]). When Device is set, the augmentation parameters follow (int32[N][Layout.Record], see
// kernels.Augment). Packed samples come last.
type Batch struct {
	Seq   int32 // over the session
	Epoch int32
	Index int32 // in the epoch's order
	Pos   int   // of its first sample in the epoch's order
	N     int   // samples; the last batch of an epoch may be short
	Last  bool  // the last batch delivered of its epoch

	Host      []byte
	LabelsOff int
	AugOff    int
	Device    bool // the device does the rest of the transform
	Pinned    bool
	Flags     uint16      // trace.FlagInjected, trace.FlagCeiling
	Load      int64       // ns of worker time spent on it
	Work      trace.Work  // what that time went to, if it was measured
	Built     trace.Built // who built it, and its slowest piece
	Ready     int64       // when it was built, in ns on the recorder's clock
	Samples   []int32     // the dataset indices, in order

	release func(*Batch)
}

// Release returns the slot. Call it once, when the device no longer reads Host.
func (b *Batch) Release() { b.release(b) }

// Layout says where the parts of a batch of N samples lie in Batch.Host, in bytes. Samples come
// first. Packed samples (Info.Packed) come last, and Size is then the most that they may take.
type Layout struct {
	N       int
	Sample  int // bytes of one sample; if packed, at most
	Samples int // offset of the first
	Labels  int // offset of int32[N]
	Aug     int // offset of int32[N][Record]; 0 without device transforms
	Record  int // parameters of a sample
	Packed  bool
	Size    int
}

// Sent returns the bytes of a sample that are sent to the device; if packed, the most.
func (l *Layout) Sent() int {
	if l.Packed {
		return (l.Sample + packing - 1) / packing * packing
	}
	return l.Sample
}

// align is the boundary at which each part starts: a cache line, and more than
// any vector load or cp.async needs.
const align = 64

// packing is the alignment of each packed sample.
const packing = 16

// NewLayout lays out n samples of a data set. They are float32, or uint8 with the
// augmentation parameters if the device does the transforms.
func NewLayout(info Info, n int, device bool) Layout {
	if !device {
		l := Layout{N: n, Sample: info.Values() * 4}
		l.Labels = roundUp(n * l.Sample)
		l.Size = l.Labels + roundUp(n*4)
		return l
	}
	l := Layout{N: n, Sample: info.sent(), Record: info.record(), Packed: info.Packed}
	at := 0
	take := func(bytes int) int {
		from := at
		at += roundUp(bytes)
		return from
	}
	if !l.Packed {
		take(n * l.Sample)
	}
	l.Labels = take(n * 4)
	l.Aug = take(n * 4 * l.Record)
	if l.Packed {
		l.Samples = take(n * l.Sent())
	}
	l.Size = at
	return l
}

func roundUp(n int) int { return (n + align - 1) / align * align }
