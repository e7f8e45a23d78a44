package loader

import (
	"fmt"
	"strconv"
	"time"

	"dev.gpustall/engine/trace"
)

// The ranges of the knobs.
const (
	maxWorkers  = trace.MaxWorkers
	maxPrefetch = 16
	maxBatch    = 1 << 20 // samples
	maxTimeout  = 24 * time.Hour

	// defaultPrefetch is in force when prefetch_factor is unset and there are
	// workers, as in PyTorch.
	defaultPrefetch = 2
)

// DefaultKnobs are PyTorch's defaults.
func DefaultKnobs() Knobs { return Knobs{BatchSize: 1, InOrder: true} }

// Prefetch is the prefetch_factor in force: the default where it is unset, 0
// without workers.
func (k Knobs) Prefetch() int {
	if k.NumWorkers > 0 && k.PrefetchFactor == 0 {
		return defaultPrefetch
	}
	return k.PrefetchFactor
}

// InFlight is the most batches that workers may have started and Next not yet
// returned; 0 without workers.
func (k Knobs) InFlight() int { return k.NumWorkers * k.Prefetch() }

// Validate refuses what PyTorch's DataLoader refuses, and values out of range.
func (k Knobs) Validate() error {
	switch {
	case k.NumWorkers < 0 || k.NumWorkers > maxWorkers:
		return outOfRange("num_workers", k.NumWorkers, 0, maxWorkers)
	case k.PrefetchFactor < 0 || k.PrefetchFactor > maxPrefetch:
		return outOfRange("prefetch_factor", k.PrefetchFactor, 1, maxPrefetch)
	case k.BatchSize < 1 || k.BatchSize > maxBatch:
		return outOfRange("batch_size", k.BatchSize, 1, maxBatch)
	case k.Timeout < 0 || k.Timeout > maxTimeout:
		return fmt.Errorf("timeout=%v is out of range: choose 0 (wait for ever) to %v", k.Timeout, maxTimeout)
	case k.NumWorkers == 0 && k.PrefetchFactor != 0:
		return fmt.Errorf("prefetch_factor=%d needs num_workers > 0: without workers nothing is prefetched; raise num_workers or unset prefetch_factor (0)", k.PrefetchFactor)
	case k.NumWorkers == 0 && k.PersistentWorkers:
		return fmt.Errorf("persistent_workers=on needs num_workers > 0: there is no worker to keep; raise num_workers or turn persistent_workers off")
	}
	return k.Inject.validate()
}

// validFor adds what depends on the data set.
func (k Knobs) validFor(info Info) error {
	if err := k.Validate(); err != nil {
		return err
	}
	if k.DropLast && k.BatchSize > info.Samples {
		return fmt.Errorf("batch_size=%d with drop_last=on leaves no batch of the %d samples of %s: choose batch_size 1 to %d or turn drop_last off",
			k.BatchSize, info.Samples, info.Name, info.Samples)
	}
	return nil
}

func outOfRange(name string, v, lo, hi int) error {
	return fmt.Errorf("%s=%d is out of range: choose %d to %d", name, v, lo, hi)
}

// Set changes one knob by its name and text value, as List writes them. Switches
// take on and off (and true, false, 1, 0), prefetch_factor also "unset". Whether
// the knobs fit together is Validate's to say.
func (k *Knobs) Set(name, value string) error {
	var err error
	switch name {
	case "num_workers":
		err = setInt(&k.NumWorkers, name, value, 0, maxWorkers)
	case "prefetch_factor":
		if value == "unset" || value == "0" {
			k.PrefetchFactor = 0
			return nil
		}
		err = setInt(&k.PrefetchFactor, name, value, 1, maxPrefetch)
	case "batch_size":
		err = setInt(&k.BatchSize, name, value, 1, maxBatch)
	case "timeout":
		var d time.Duration
		if d, err = parseDuration(name, value); err == nil {
			k.Timeout = d
		}
	case "inject_read", "inject_cpu", "inject_straggler":
		i := k.Inject
		if err = i.set(name[len("inject_"):], value); err == nil {
			if err = i.validate(); err == nil {
				k.Inject = i
			}
		}
	default:
		b := k.flag(name)
		if b == nil {
			return fmt.Errorf("there is no loader knob %q", name)
		}
		err = setBool(b, name, value)
	}
	return err
}

// flag returns the switch of that name, or nil.
func (k *Knobs) flag(name string) *bool {
	switch name {
	case "pin_memory":
		return &k.PinMemory
	case "persistent_workers":
		return &k.PersistentWorkers
	case "in_order":
		return &k.InOrder
	case "shuffle":
		return &k.Shuffle
	case "drop_last":
		return &k.DropLast
	case "device_transforms":
		return &k.DeviceTransforms
	case "ceiling":
		return &k.Ceiling
	}
	return nil
}

func setInt(p *int, name, value string, lo, hi int) error {
	v, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("%s=%q is not a whole number: choose %d to %d", name, value, lo, hi)
	}
	if v < lo || v > hi {
		return outOfRange(name, v, lo, hi)
	}
	*p = v
	return nil
}

func setBool(p *bool, name, value string) error {
	switch value {
	case "on":
		*p = true
	case "off":
		*p = false
	default:
		v, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%s=%q: choose on or off", name, value)
		}
		*p = v
	}
	return nil
}

// List returns all knobs as name/value pairs, in the order of Specs. An unset
// prefetch_factor is listed as the value in force.
func (k Knobs) List() []trace.Knob {
	onOff := map[bool]string{true: "on", false: "off"}
	duration := func(d time.Duration) string {
		if d == 0 {
			return "off"
		}
		return d.String()
	}
	values := map[string]string{
		"num_workers": strconv.Itoa(k.NumWorkers), "prefetch_factor": strconv.Itoa(k.Prefetch()),
		"batch_size": strconv.Itoa(k.BatchSize), "timeout": duration(k.Timeout),
		"inject_read": duration(k.Inject.Read), "inject_cpu": duration(k.Inject.CPU),
		"inject_straggler": k.Inject.straggler(),
	}
	var out []trace.Knob
	for _, s := range Specs() {
		v, ok := values[s.Name]
		if !ok {
			v = onOff[*k.flag(s.Name)]
		}
		out = append(out, trace.Knob{Name: s.Name, Value: v})
	}
	return out
}

// Specs describes the knobs, in the order in which screens show them.
func Specs() []trace.KnobSpec {
	integer := func(name string, lo, hi int, values []string, applied, help string) trace.KnobSpec {
		return trace.KnobSpec{Name: name, Type: "int", Min: lo, Max: hi, Values: values, Applied: applied, Group: "loader", Help: help}
	}
	toggle := func(name, applied, help string) trace.KnobSpec {
		return trace.KnobSpec{Name: name, Type: "bool", Applied: applied, Group: "loader", Help: help}
	}
	inject := func(name, kind, help string) trace.KnobSpec {
		return trace.KnobSpec{Name: name, Type: kind, Applied: "next batch", Group: "inject", Help: help}
	}
	return []trace.KnobSpec{
		integer("num_workers", 0, maxWorkers, nil, "next batch", "goroutines that load batches; 0 loads inline in the step loop"),
		integer("prefetch_factor", 0, maxPrefetch, []string{"1", "2", "4", "8", "16"}, "next dispatch", "batches in flight per worker, 1 to 16; 0 = unset: 2 with workers, must be unset without"),
		toggle("pin_memory", "next slot", "page-locked batch memory, which the device copies from directly"),
		toggle("persistent_workers", "next epoch end", "keep workers between epochs and load ahead across the boundary; needs workers"),
		toggle("in_order", "next batch", "deliver in the sampler's order; off delivers whichever batch is ready first"),
		integer("batch_size", 1, maxBatch, []string{"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024"}, "next dispatched batch", "samples per batch"),
		toggle("shuffle", "next epoch", "a new random order for each epoch"),
		toggle("drop_last", "next batch", "drop the epoch's last batch when it is short"),
		{Name: "timeout", Type: "duration", Applied: "next batch", Group: "loader", Help: "longest wait for a batch before the run fails; off waits for ever"},
		toggle("device_transforms", "next batch", "crop, flip and normalise on the device; uint8 pixels travel instead of float32"),
		toggle("ceiling", "next batch", "serve kept batches: what would the run do if data were free?"),
		inject("inject_read", "duration", "injected: latency added to each sample's read"),
		inject("inject_cpu", "duration", "injected: computation added to each sample's transform"),
		inject("inject_straggler", "text", "injected: worker:delay added to each of its batches; 3:50ms slows the third worker, lane w2"),
	}
}
