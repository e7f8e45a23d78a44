package loader

import "context"

// Info describes a data set.
type Info struct {
	Name      string // "CIFAR-10", or the folder's base name
	Format    string // "cifar10-binary", "cifar10-python", "imagefolder", "synthetic-records", …
	Path      string
	Samples   int
	Classes   []string
	H, W, C   int   // of a sample after the transform
	Bytes     int64 // stored bytes of all samples; 0 when unknown
	Synthetic bool
}

// Dataset reads samples. Its methods are safe for concurrent use by workers,
// each with a Sample of its own.
type Dataset interface {
	Info() Info
	// Read fetches the stored bytes of sample s.Index into s.Raw and sets s.Label.
	Read(ctx context.Context, s *Sample) error
	// Decode turns s.Raw into s.Pixels, HWC uint8, and sets s.H, s.W, s.C. It may leave
	// out what s.Needed does not ask for, and says so in s.Part.
	Decode(s *Sample) error
	Close() error
}

// Locator is a data set that can say where a sample lies: its file, below Info.Path, and
// the place in it where the file has several.
type Locator interface{ Locate(index int) string }

// Rect is a rectangle of an image, in pixels.
type Rect struct{ X, Y, W, H int }

// Sample is a worker's scratch for one sample; its slices are reused.
type Sample struct {
	Index   int
	Label   int32
	Raw     []byte
	Pixels  []byte
	H, W, C int  // of the whole sample
	Part    Rect // what Pixels hold of it; of no width where that is all

	cropper Cropper
	rng     RNG
}

// Expect says which transform comes after Decode, or nil, and with which generator.
func (s *Sample) Expect(t Cropper, rng RNG) { s.cropper, s.rng = t, rng }

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
	// Host writes the whole transform's result, float32 HWC, into dst.
	Host(s *Sample, rng *RNG, dst []float32)
	// Device writes uint8 HWC into dst and the rest, for the device to do, into aug.
	Device(s *Sample, rng *RNG, dst []byte, aug *[4]int32)
	// Mean and Std of the normalisation, in units of [0,1] pixels.
	Normalisation() (mean, std [4]float32)
}

// Cropper is a transform that may read less than a whole image, and knows what before it
// sees one.
type Cropper interface {
	// Needs returns what Host and Device will read of a w x h image, given the same
	// generator.
	Needs(w, h int, rng RNG) Rect
}
