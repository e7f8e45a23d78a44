package loader

import (
	"context"
	"fmt"
	"slices"
)

// Info describes a data set.
type Info struct {
	Name      string // "CIFAR-10", or the folder's base name
	Format    string // "cifar10-binary", "cifar10-python", "imagefolder", "synthetic-records", …
	Path      string
	Samples   int
	Classes   []string
	T         int   // frames of a clip after the transform; 0: a sample is an image
	H, W, C   int   // of a sample after the transform, or of each of its frames
	Bytes     int64 // stored bytes of all samples; 0 when unknown
	Ahead     int64 // bytes that a Stream has in memory for each read in flight: one of each group that it reads at a time
	Unpacking int64 // bytes that a Stream takes to unpack what it reads at a time
	Mapped    int64 // bytes of files that are mapped, at the most: resident memory that the system takes back when it is short
	Stream    bool  // what is mixed of its samples is kept in memory (Streamed)
	Float     bool  // stored values are floating point: there are no uint8 pixels for the device to transform
	Synthetic bool
	Doubt     string // why the data may not be meant as it is read, and what to do then; empty for most

	// Of batches of which the device makes the transforms, by Shaper.
	Sent   int  // bytes of a sample, or, packed, the most that it may have; 0: Values()
	Packed bool // samples lie one behind the other, as long as each is
	Record int  // numbers of a sample that say what is to be done to it; 0: 4
}

// sent is the bytes of a sample when the device makes the transforms.
func (i *Info) sent() int {
	if i.Sent > 0 {
		return i.Sent
	}
	return i.Values()
}

// record is how many numbers go with it.
func (i *Info) record() int { return max(i.Record, 4) }

// Values is how many numbers a sample has after the transform.
func (i *Info) Values() int { return max(i.T, 1) * i.H * i.W * i.C }

// Shape is a sample after the transform as it lies in a batch: 224x224x3, or 16x112x112x3
// with frames.
func (i *Info) Shape() string {
	s := fmt.Sprintf("%dx%dx%d", i.H, i.W, i.C)
	if i.T > 0 {
		s = fmt.Sprintf("%dx%s", i.T, s)
	}
	return s
}

// Dataset reads samples. Its methods are safe for concurrent use by workers,
// each with a Sample of its own.
type Dataset interface {
	Info() Info
	// Read fetches the stored bytes of sample s.Index into s.Raw and sets s.Label.
	Read(ctx context.Context, s *Sample) error
	// Decode turns s.Raw into s.Pixels, HWC uint8 or what the data set's transform takes,
	// and sets s.H, s.W, s.C, and s.T of a clip. It may leave out what s.Needed does not
	// ask for, and says so in s.Part.
	Decode(s *Sample) error
	Close() error
}

// Locator is a data set that can say where a sample lies: its file, below Info.Path, and
// the place in it where the file has several.
type Locator interface{ Locate(index int) string }

// Resident is a data set whose stored samples lie in memory. Stored is where one does, for
// the processor to fetch it ahead: the bytes are not to be read, since they may be gone.
type Resident interface{ Stored(index int) []byte }

// Announced is a data set of many files. Announce says that a sample is read soon: without
// waiting for it, the system may begin to bring its file into memory.
type Announced interface{ Announce(index int) }

// Grouped is a data set whose samples lie one after the other in a few large files, which
// are read fastest that way: shuffled, they keep near to one another (Sampler.Grouped).
type Grouped interface{ Grouping() Grouping }

// Grouping is how the samples of a data set lie in groups.
type Grouping struct {
	Starts []int32 // the indices of the groups' first samples, from 0, rising
	Lanes  int     // groups that are read at a time, taking turns; 0 is 1
}

// Group is the group of a sample.
func (g *Grouping) Group(index int) int {
	i, exact := slices.BinarySearch(g.Starts, int32(index))
	if !exact {
		i--
	}
	return i
}

// Bounds are the indices of a group's first sample and of the one behind its last, in a
// data set of so many samples.
func (g *Grouping) Bounds(group, samples int) (start, end int) {
	if end = samples; group+1 < len(g.Starts) {
		end = int(g.Starts[group+1])
	}
	return int(g.Starts[group]), end
}

// Rect is a rectangle of an image, in pixels.
type Rect struct{ X, Y, W, H int }

// Sample is a worker's scratch for one sample; its slices are reused.
type Sample struct {
	Index   int
	Epoch   int32
	Label   int32
	Ahead   int // requests that Read may have under way beyond the sample, where it reads forwards
	Raw     []byte
	Pixels  []byte
	T       int // frames of a clip; 0: an image
	H, W, C int // of the whole sample

	// FirstByte is how long, in ns, Read waited for a store to begin to send; Read adds to it.
	FirstByte int64

	Part Rect // what Pixels hold of it; of no width where that is all

	// Planes are the red, the green and the blue bytes of an image, which Decode sets instead
	// of Pixels where it has them and the transform takes them.
	Planes []byte
	// Soon are stored bytes that the worker reads some samples later: whoever goes through
	// Planes has the processor fetch them meanwhile. They are not to be read.
	Soon []byte

	cropper Cropper
	rng     RNG
	planar  bool
}

// Expect says which transform comes after Decode, or nil, and with which generator.
func (s *Sample) Expect(t Cropper, rng RNG) { s.cropper, s.rng, s.planar = t, rng, false }

// TakesPlanes reports whether the transform that comes after Decode takes Planes.
func (s *Sample) TakesPlanes() bool { return s.planar }

// RNG is the generator that Expect was given.
func (s *Sample) RNG() RNG { return s.rng }

// Needed returns what the transform that comes after Decode will read of a w x h image.
// A decoder may leave out the rest.
func (s *Sample) Needed(w, h int) Rect {
	if s.cropper == nil {
		return Rect{0, 0, w, h}
	}
	return s.cropper.Needs(w, h, s.rng)
}

// Held returns which part of the sample Pixels hold.
func (s *Sample) Held() Rect {
	if s.Part.W == 0 {
		return Rect{0, 0, s.W, s.H}
	}
	return s.Part
}

// Transform makes a training sample of a decoded one. It is safe for concurrent
// use; its randomness comes from rng alone, which is seeded by (seed, epoch,
// index), so that the same seed gives the same batches whatever num_workers is.
type Transform interface {
	// Host writes the whole transform's result, float32 HWC or THWC, into dst.
	Host(s *Sample, rng *RNG, dst []float32)
	// Device writes uint8 HWC into dst and the rest, for the device to do, into record
	// (see kernels.Augment). It returns how many bytes of dst it wrote.
	Device(s *Sample, rng *RNG, dst []byte, record []int32) int
	// Mean and Std of the normalisation, in units of [0,1] pixels.
	Normalisation() (mean, std [4]float32)
}

// Planar is a transform that makes several images at once, of their planes.
type Planar interface {
	// TakesPlanes reports whether HostPlanes takes images of that size.
	TakesPlanes(w, h int) bool
	// HostPlanes is Host of images that all have Planes, one behind the other in dst, each
	// with the generator that it expects.
	HostPlanes(s []Sample, dst []float32)
}

// Shaper is a transform that makes samples of a size of its own, whatever Dataset.Info says.
type Shaper interface{ Shape(Info) Info }

// DeviceStep is one transform of images that the device makes. Images of InH x InW become
// OutH x OutW; where InH is 0 they are packed and of any size. At is where its numbers are in
// a sample's record.
type DeviceStep struct {
	Kind                 string // one of the names below
	InH, InW, OutH, OutW int
	At                   int
	Taps                 int // of a blur
}

// Kinds of DeviceStep.
const (
	DeviceResample = "resample"
	DeviceShift    = "shift"
	DeviceBlur     = "blur"
	DeviceColours  = "colours"
)

// Stager is a transform of which the device makes more than shift, flip and normalisation.
type Stager interface{ DeviceSteps() []DeviceStep }

// InfoOf describes a data set whose samples go through a transform.
func InfoOf(d Dataset, t Transform) Info {
	info := d.Info()
	if s, ok := t.(Shaper); ok {
		info = s.Shape(info)
	}
	return info
}

// Cropper is a transform that may read less than a whole image, and knows what before it
// sees one.
type Cropper interface {
	// Needs returns what Host and Device will read of a w x h image, given the same
	// generator.
	Needs(w, h int, rng RNG) Rect
}
