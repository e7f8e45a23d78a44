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
	// Decode turns s.Raw into s.Pixels, HWC uint8, and sets s.H, s.W, s.C.
	Decode(s *Sample) error
	Close() error
}

// Locator is a data set that can say where a sample lies: its file, below Info.Path, and
// the place in it where the file has several.
type Locator interface{ Locate(index int) string }

// Sample is a worker's scratch for one sample; its slices are reused.
type Sample struct {
	Index   int
	Label   int32
	Raw     []byte
	Pixels  []byte
	H, W, C int
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
