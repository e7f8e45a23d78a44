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
	Ahead     int64 // bytes that a Stream holds in memory for each read in flight
	Unpacking int64 // bytes of memory that a Stream needs to unpack
	Mapped    int64 // at most so many bytes of files are mapped; the system takes this memory back when it is short
	Stream    bool  // the samples of the shuffle buffer are kept in memory (Streamed)
	Float     bool  // stored values are floating point, so there are no uint8 pixels for the device to transform
	Synthetic bool
	Doubt     string // why the data may mean something else, and what to do then; usually empty

	// The next three are for batches whose transforms the device makes. Shaper sets
	// them.
	Sent   int  // bytes of a sample; if packed, the most; 0: Values()
	Packed bool // samples have lengths of their own and lie one behind the other
	Record int  // parameters of a sample's transforms; 0: 4
}

// sent returns the bytes of a sample when the device makes the transforms.
func (i *Info) sent() int {
	if i.Sent > 0 {
		return i.Sent
	}
	return i.Values()
}

// record returns the number of parameters that go with a sample.
func (i *Info) record() int { return max(i.Record, 4) }

// Values returns how many numbers a sample has after the transform.
func (i *Info) Values() int { return max(i.T, 1) * i.H * i.W * i.C }

// Shape returns the shape of a sample in a batch, after the transform: 224x224x3, or
// 16x112x112x3 with frames.
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
	// Decode turns s.Raw into s.Pixels, HWC uint8 or what the data set's transform takes. It
	// sets s.H, s.W, s.C, and s.T of a clip. It may leave out what s.Needed does not return,
	// and then sets s.Part.
	Decode(s *Sample) error
	Close() error
}

// Locator is a data set that knows where a sample lies: its file, below Info.Path, and the
// place in it if the file has several.
type Locator interface{ Locate(index int) string }

// Resident is a data set whose stored samples lie in memory. Stored returns where a sample
// lies, so that the processor can prefetch it. The bytes must not be read, because they may
// be gone.
type Resident interface{ Stored(index int) []byte }

// Announced is a data set of many files. Announce says that a sample will be read soon, so that
// the system may begin to bring its file into memory. It does not wait.
type Announced interface{ Announce(index int) }

// Grouped is a data set whose samples lie one after the other in a few large files. They are
// read fastest in that order. So shuffled samples stay near to one another (Sampler.Grouped).
type Grouped interface{ Grouping() Grouping }

// Grouping says how the samples of a data set lie in groups.
type Grouping struct {
	Starts []int32 // the index of each group's first sample, from 0, ascending
	Lanes  int     // groups that are read in turns; 0 is 1
}

// Group returns the group of a sample.
func (g *Grouping) Group(index int) int {
	i, exact := slices.BinarySearch(g.Starts, int32(index))
	if !exact {
		i--
	}
	return i
}

// Bounds returns the index of a group's first sample, and the index after its last, in a data
// set of so many samples.
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
	Ahead   int // requests for later samples that Read may have under way, if it reads forwards
	Raw     []byte
	Pixels  []byte
	T       int // frames of a clip; 0: an image
	H, W, C int // of the whole sample

	// FirstByte is how long, in ns, Read waited for a store to begin to send; Read adds to it.
	FirstByte int64

	Part Rect // the part of it that Pixels hold; if its width is 0, all

	// Planes are the red, the green and the blue bytes of an image. Decode sets them instead of
	// Pixels if the format has them and the transform takes them.
	Planes []byte
	// Soon are stored bytes of a sample that the worker reads later. Whoever reads Planes lets
	// the processor prefetch them. They must not be read.
	Soon []byte

	cropper Cropper
	rng     RNG
	planar  bool
}

// Expect sets the transform that comes after Decode, which may be nil, and its generator.
func (s *Sample) Expect(t Cropper, rng RNG) { s.cropper, s.rng, s.planar = t, rng, false }

// TakesPlanes reports whether the transform that comes after Decode takes Planes.
func (s *Sample) TakesPlanes() bool { return s.planar }

// RNG returns the generator that Expect was given.
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

// Transform makes a training sample of a decoded one. It is safe for concurrent use. Its
// randomness comes only from rng, which is seeded by (seed, epoch, index). So the same seed
// gives the same batches whatever num_workers is.
type Transform interface {
	// Host writes the whole transform's result, float32 HWC or THWC, into dst.
	Host(s *Sample, rng *RNG, dst []float32)
	// Device writes uint8 HWC into dst, and into record the parameters of what is left to the
	// device (see kernels.Augment). It returns how many bytes of dst it wrote.
	Device(s *Sample, rng *RNG, dst []byte, record []int32) int
	// Mean and Std of the normalisation, in units of [0,1] pixels.
	Normalisation() (mean, std [4]float32)
}

// Planar is a transform that can make several images at once from their planes.
type Planar interface {
	// TakesPlanes reports whether HostPlanes takes images of that size.
	TakesPlanes(w, h int) bool
	// HostPlanes does what Host does for images that all have Planes, each with the generator
	// of its Expect. The results lie one behind the other in dst.
	HostPlanes(s []Sample, dst []float32)
}

// Shaper is a transform that decides the size of its samples, whatever Dataset.Info says.
type Shaper interface{ Shape(Info) Info }

// DeviceStep is one transform of images that the device makes. Images of InH x InW become OutH
// x OutW. If InH is 0, the images are packed and of any size. At is the place of its parameters
// in a sample's record.
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

// Stager is a transform that leaves more to the device than shift, flip and normalisation.
type Stager interface{ DeviceSteps() []DeviceStep }

// InfoOf describes a data set whose samples go through a transform.
func InfoOf(d Dataset, t Transform) Info {
	info := d.Info()
	if s, ok := t.(Shaper); ok {
		info = s.Shape(info)
	}
	return info
}

// Cropper is a transform that may read only a part of an image, and knows which part before it
// sees the image.
type Cropper interface {
	// Needs returns what Host and Device will read of a w x h image, given the same
	// generator.
	Needs(w, h int, rng RNG) Rect
}
