package engine

import (
	"fmt"
	"strconv"
	"strings"

	"dev.gpustall/engine/device"
	"dev.gpustall/engine/ops"
	"dev.gpustall/engine/plan"
	"dev.gpustall/engine/trace"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// Knobs are all settings that can change while the engine runs: the loader's and
// the engine's own. It is a value; the engine holds the wanted one behind an
// atomic pointer and applies it at a step boundary.
type Knobs struct {
	plan.Knobs
	TimeOps ops.Mode
}

// maxAccumulate bounds gradient_accumulation.
const maxAccumulate = 64

// DefaultKnobs are PyTorch's defaults, but for what every training script sets:
// batches of 128, shuffled.
func DefaultKnobs() Knobs {
	var k Knobs
	k.Loader, k.Accumulate, k.Autotune = loader.DefaultKnobs(), 1, true
	k.Loader.BatchSize, k.Loader.Shuffle = 128, true
	return k
}

var precisions = []string{"fp32", "tf32", "fp16", "bf16"}

// Set changes one knob by its name and text value.
func (k *Knobs) Set(name, value string) error {
	switch name {
	case "precision":
		for i, p := range precisions {
			if p == value {
				k.Precision = kernels.Type(i)
				return nil
			}
		}
		return fmt.Errorf("set precision: %q is not one of %s", value, strings.Join(precisions, ", "))
	case "gradient_accumulation":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxAccumulate {
			return fmt.Errorf("gradient_accumulation=%q is out of range: choose 1 to %d batches", value, maxAccumulate)
		}
		k.Accumulate = n
		return nil
	case "checkpointing":
		return setSwitch(&k.Checkpoint, name, value)
	case "capture":
		return setSwitch(&k.Capture, name, value)
	case "autotune":
		return setSwitch(&k.Autotune, name, value)
	case "time_ops":
		t, err := ops.ParseMode(value)
		if err == nil {
			k.TimeOps = t
		}
		return err
	}
	return k.Loader.Set(name, value)
}

func setSwitch(b *bool, name, value string) error {
	switch value {
	case "on", "true":
		*b = true
	case "off", "false":
		*b = false
	default:
		return fmt.Errorf("%s=%q: choose on or off", name, value)
	}
	return nil
}

// List returns all knobs as name/value pairs, in the order of Specs.
func (k Knobs) List() []trace.Knob {
	return append(k.Loader.List(),
		trace.Knob{Name: "precision", Value: k.Precision.String()},
		trace.Knob{Name: "gradient_accumulation", Value: strconv.Itoa(k.Accumulate)},
		trace.Knob{Name: "checkpointing", Value: onOff(k.Checkpoint)},
		trace.Knob{Name: "capture", Value: onOff(k.Capture)},
		trace.Knob{Name: "autotune", Value: onOff(k.Autotune)},
		trace.Knob{Name: "time_ops", Value: k.TimeOps.String()})
}

// Specs describes the knobs for a device: what has no effect there says why.
func Specs(info device.Info) []trace.KnobSpec {
	specs := loader.Specs()
	for i := range specs {
		switch specs[i].Name {
		case "pin_memory":
			specs[i].NoEffect = info.PinNote
		case "device_transforms":
			if !info.Computes {
				specs[i].Help += "; on this device only the bytes copied change"
			}
		}
	}
	precision := trace.KnobSpec{
		Name: "precision", Type: "enum", Values: info.Types, Applied: "next step", Group: "engine",
		Help: "type of activations and of the matrix products; parameters stay fp32",
	}
	if info.TypeNote != "" {
		precision.Help += "; " + info.TypeNote
	}
	if len(info.Types) < 2 {
		precision.NoEffect = "this device computes in fp32 only"
	}
	capture := trace.KnobSpec{
		Name: "capture", Type: "bool", Applied: "next step", Group: "engine",
		Help: "replay the step as one captured graph instead of launching each kernel",
	}
	if info.Kind != "cuda" {
		capture.NoEffect = "only CUDA devices capture graphs"
	}
	accumulate := trace.KnobSpec{
		Name: "gradient_accumulation", Type: "int", Min: 1, Max: maxAccumulate, Values: []string{"1", "2", "4", "8", "16", "32", "64"},
		Applied: "next step", Group: "engine", Help: "batches whose gradients make one optimizer step",
	}
	checkpoint := trace.KnobSpec{
		Name: "checkpointing", Type: "bool", Applied: "next step", Group: "engine",
		Help: "keep fewer activations and compute the others again: less memory, more time",
	}
	tune := trace.KnobSpec{
		Name: "autotune", Type: "bool", Applied: "next step", Group: "engine", NoEffect: info.TuneNote,
		Help: "take the kernel variants that a trial on this GPU found right and fastest, trying those not tried yet; off: the planner's guesses",
	}
	if info.Kind != "cuda" {
		tune.NoEffect = "only CUDA devices have kernels to choose from"
	}
	timeOps := trace.KnobSpec{
		Name: "time_ops", Type: "enum", Values: []string{"off", "sampled", "every"}, Applied: "next step", Group: "engine",
		Help: "steps whose ops are timed one by one: none, more often at first and then 1 in 32 or fewer (as few as keep the cost near 1 %), or every one; a timed step is never a captured graph",
	}
	return append(specs, precision, accumulate, checkpoint, capture, tune, timeOps)
}

// Check refuses what the loader or the device cannot do.
func (k Knobs) Check(info device.Info) error {
	if err := k.Loader.Validate(); err != nil {
		return err
	}
	if k.Accumulate < 1 || k.Accumulate > maxAccumulate {
		return fmt.Errorf("gradient_accumulation=%d is out of range: choose 1 to %d batches", k.Accumulate, maxAccumulate)
	}
	if k.TimeOps > ops.Every {
		return fmt.Errorf("time_ops=%s: choose sampled, every or off", k.TimeOps)
	}
	for _, t := range info.Types {
		if t == k.Precision.String() {
			return nil
		}
	}
	return fmt.Errorf("set precision=%s: %s runs %s only: %w",
		k.Precision, info.Name, strings.Join(info.Types, ", "), device.ErrUnsupported)
}

// Fits refuses what leaves the data set no batch.
func (k Knobs) Fits(info loader.Info) error {
	if n := info.Samples; k.Loader.DropLast && k.Loader.BatchSize > n {
		return fmt.Errorf("batch_size=%d with drop_last=on leaves no batch of the %d samples of %s: choose batch_size 1 to %d or turn drop_last off",
			k.Loader.BatchSize, n, info.Name, n)
	}
	return nil
}

// ineffective says which knobs have no effect, or less of one, because of others.
// captures: the device can replay a step as a captured graph.
func (k Knobs) ineffective(captures bool) []string {
	var out []string
	if captures && k.Capture && k.TimeOps == ops.Every {
		out = append(out, "time_ops=every times every step, so none replays the captured graph that capture=on asks for; time_ops=sampled lets the others")
	}
	if w := k.Loader.IdleStraggler(); w != "" {
		out = append(out, w)
	}
	return out
}

// diff says in words what changed: "num_workers 2 -> 4, pin_memory off -> on".
func diff(from, to []trace.Knob) string {
	old := make(map[string]string, len(from))
	for _, k := range from {
		old[k.Name] = k.Value
	}
	var b strings.Builder
	for _, k := range to {
		if was := old[k.Name]; was != k.Value {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s %s -> %s", k.Name, was, k.Value)
		}
	}
	return b.String()
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
