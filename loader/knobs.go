package loader

import (
	"fmt"
	"strconv"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
)

const (
	maxWorkers = trace.MaxWorkers
	maxInject  = 10_000 // ms; bounds an injected delay, so that a typing error cannot hang the run

	// defaultPrefetch is in force when prefetch_factor is unset and there are
	// workers, as in PyTorch.
	defaultPrefetch = 2

	// defaultBuffer is the shuffle_buffer in force when it is unset. WebDataset's users take
	// 1,000 to 10,000.
	defaultBuffer = 1024
)

// Knobs are the loader's settings. Names and defaults are PyTorch's.
type Knobs struct {
	NumWorkers        int  // 0 loads inline in Next
	PrefetchFactor    int  // batches per worker; 0 is unset, which is 2 with workers, and the only value without
	PinMemory         bool // slots are page-locked
	PersistentWorkers bool
	InOrder           bool
	BatchSize         int
	Shuffle           bool
	ShuffleBuffer     int // samples of shards that are mixed at a time; 0 is unset
	DropLast          bool
	Timeout           time.Duration // of Next; 0 waits for ever
	ReadsInFlight     int           // of each worker; 0 is 1
	OnError           OnError
	DeviceTransforms  bool // the device gets uint8 pixels and the parameters of the transform
	Ceiling           bool // serve cached batches: what if data were free?
	Inject            Inject
}

// KnobTable says everything about each knob. To add a knob, add a row here, its field in
// Knobs, and what it does. The defaults are PyTorch's.
var KnobTable = knob.NewTable(knob.Table[Knobs]{
	{
		Spec: knob.Spec{
			Name: "num_workers", Group: knob.GroupLoader, Max: maxWorkers, Applied: "next batch",
			Help: "goroutines that load batches; 0 loads inline in the step loop",
		},
		Field: func(k *Knobs) any { return &k.NumWorkers },
	},
	{
		Spec: knob.Spec{
			Name: "prefetch_factor", Group: knob.GroupLoader, Max: 16, Values: []string{"1", "2", "4", "8", "16"}, Applied: "next dispatch",
			Help: "batches in flight per worker, 1 to 16; 0 = unset: 2 with workers, must be unset without",
		},
		Field: func(k *Knobs) any { return &k.PrefetchFactor },
		Unset: "unset",
		Shown: func(k Knobs) string { return strconv.Itoa(k.Prefetch()) },
		Refuse: func(k Knobs) error {
			if k.NumWorkers == 0 && k.PrefetchFactor != 0 {
				return errs.Reason("needs num_workers > 0: without workers nothing is prefetched", "raise num_workers or unset prefetch_factor (0)")
			}
			return nil
		},
	},
	{
		Spec: knob.Spec{
			Name: "pin_memory", Group: knob.GroupLoader, Applied: "next slot",
			Help: "page-locked batch memory, which the device copies from directly",
		},
		Field: func(k *Knobs) any { return &k.PinMemory },
	},
	{
		Spec: knob.Spec{
			Name: "persistent_workers", Group: knob.GroupLoader, Applied: "next epoch end",
			Help: "keep workers between epochs and load ahead across the boundary; needs workers",
		},
		Field: func(k *Knobs) any { return &k.PersistentWorkers },
		Refuse: func(k Knobs) error {
			if k.NumWorkers == 0 && k.PersistentWorkers {
				return errs.Reason("needs num_workers > 0: there is no worker to keep", "raise num_workers or turn persistent_workers off")
			}
			return nil
		},
	},
	{
		Spec: knob.Spec{
			Name: "in_order", Group: knob.GroupLoader, Applied: "next batch",
			Help: "deliver in the sampler's order; off delivers whichever batch is ready first",
		},
		Default: "on",
		Field:   func(k *Knobs) any { return &k.InOrder },
	},
	{
		Spec: knob.Spec{
			Name: "batch_size", Group: knob.GroupLoader, Min: 1, Max: 1 << 20,
			Values: []string{"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"}, Applied: "next dispatched batch",
			Help: "samples per batch",
		},
		Default: "1",
		Field:   func(k *Knobs) any { return &k.BatchSize },
	},
	{
		Spec: knob.Spec{
			Name: "shuffle", Group: knob.GroupLoader, Applied: "next epoch",
			Help: "a new random order for each epoch",
		},
		Field: func(k *Knobs) any { return &k.Shuffle },
	},
	{
		Spec: knob.Spec{
			Name: "shuffle_buffer", Group: knob.GroupLoader, Max: 1 << 24,
			Values: []string{"1", "256", "1024", "4096", "16384", "65536", "262144"}, Applied: "next epoch",
			Help: "samples of shards that are mixed at a time when they are shuffled, on top of the shards' random order; other data is always mixed as a whole",
		},
		Field: func(k *Knobs) any { return &k.ShuffleBuffer },
		Unset: strconv.Itoa(defaultBuffer),
		Shown: func(k Knobs) string { return strconv.Itoa(k.Mixed()) },
		Idle: func(k Knobs) string {
			if k.ShuffleBuffer == 0 || k.Shuffle {
				return ""
			}
			return "shuffle is off; turn it on"
		},
	},
	{
		Spec: knob.Spec{
			Name: "drop_last", Group: knob.GroupLoader, Applied: "next batch",
			Help: "drop the epoch's last batch when it is short",
		},
		Field: func(k *Knobs) any { return &k.DropLast },
	},
	{
		Spec: knob.Spec{
			Name: "timeout", Group: knob.GroupLoader, Max: 24 * 60 * 60 * 1000, Applied: "next batch",
			Help: "longest wait for a batch before the run fails; off waits for ever",
		},
		Field: func(k *Knobs) any { return &k.Timeout },
	},
	{
		Spec: knob.Spec{
			Name: "reads_in_flight", Group: knob.GroupLoader, Max: 64,
			Values: []string{"1", "2", "4", "8", "16", "32", "64"}, Applied: "next dispatched batch",
			Help: "reads that each worker has in flight at a time: a slow disk or network needs no more workers then",
		},
		Field: func(k *Knobs) any { return &k.ReadsInFlight },
		Unset: "1",
		Shown: func(k Knobs) string { return strconv.Itoa(max(1, k.ReadsInFlight)) },
	},
	{
		Spec: knob.Spec{
			Name: "on_error", Group: knob.GroupLoader, Values: onErrors, Applied: "next dispatched batch",
			Help: "what a sample that cannot be loaded does: stop ends the run, skip leaves it out of its batch, counts it, and names the first 100",
		},
		Field: func(k *Knobs) any { return &k.OnError },
		Flag:  knob.Flag{Value: "ACTION"},
	},
	{
		Spec: knob.Spec{
			Name: "device_transforms", Group: knob.GroupLoader, Applied: "next batch",
			Help: "transforms on the device, resizing, crop, flip, blur, colours and normalisation; uint8 pixels travel instead of float32",
		},
		Field: func(k *Knobs) any { return &k.DeviceTransforms },
	},
	{
		Spec: knob.Spec{
			Name: "ceiling", Group: knob.GroupLoader, Applied: "next batch",
			Help: "serve kept batches: what would the run do if data were free?",
		},
		Field: func(k *Knobs) any { return &k.Ceiling },
	},
	{
		Spec: knob.Spec{
			Name: "inject_read", Group: knob.GroupInject, Max: maxInject, Applied: "next batch",
			Help: "injected: latency added to each sample's read",
		},
		Field: func(k *Knobs) any { return &k.Inject.Read },
		Flag:  knob.Flag{Example: "5ms"},
	},
	{
		Spec: knob.Spec{
			Name: "inject_cpu", Group: knob.GroupInject, Max: maxInject, Applied: "next batch",
			Help: "injected: computation added to each sample's transform",
		},
		Field: func(k *Knobs) any { return &k.Inject.CPU },
		Flag:  knob.Flag{Example: "2ms"},
	},
	{
		Spec: knob.Spec{
			Name: "inject_straggler", Group: knob.GroupInject, Applied: "next batch",
			Help: "injected: delay of each batch of one worker, counted from 1: 3:50ms slows w2",
		},
		Field: func(k *Knobs) any { return (*straggler)(&k.Inject) },
		Idle:  Knobs.idleStraggler,
		Flag:  knob.Flag{Example: "3:50ms"},
	},
})

// DefaultKnobs are PyTorch's defaults.
func DefaultKnobs() Knobs { return KnobTable.Defaults() }

// Prefetch returns the prefetch_factor in force: the default if it is unset, 0 without workers.
func (k Knobs) Prefetch() int {
	if k.NumWorkers > 0 && k.PrefetchFactor == 0 {
		return defaultPrefetch
	}
	return k.PrefetchFactor
}

// Mixed returns the shuffle_buffer in force: the default if it is unset.
func (k Knobs) Mixed() int {
	if k.ShuffleBuffer == 0 {
		return defaultBuffer
	}
	return k.ShuffleBuffer
}

// InFlight returns the most batches that workers may have started before Next returns them; 0
// without workers.
func (k Knobs) InFlight() int { return k.NumWorkers * k.Prefetch() }

// Fits refuses knobs that leave the data set no batch or that its samples do not allow.
func (k Knobs) Fits(info Info) error {
	if k.DeviceTransforms && info.Float {
		return errs.New("set", "device_transforms=on", fmt.Sprintf("the samples of %s are floating point: there are no uint8 pixels to send to the device", info.Name),
			"turn device_transforms off")
	}
	if k.DropLast && k.BatchSize > info.Samples {
		return errs.New("set", fmt.Sprintf("batch_size=%d", k.BatchSize),
			fmt.Sprintf("with drop_last=on it leaves no batch of the %d samples of %s", info.Samples, info.Name),
			fmt.Sprintf("choose batch_size 1 to %d or turn drop_last off", info.Samples))
	}
	return nil
}

// check refuses what PyTorch's DataLoader refuses, values out of range, and knobs that
// leave the data set no batch.
func (k Knobs) check(info Info) error {
	if err := KnobTable.Check(k); err != nil {
		return err
	}
	return k.Fits(info)
}
