package train

import (
	"fmt"
	"slices"
	"strings"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/device"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/kernels"
	"dev.gpustall/loader"
)

// Knobs are all settings that can change while the engine runs: the loader's and
// the engine's own. It is a value; the engine holds the wanted one behind an
// atomic pointer and applies it at a step boundary.
type Knobs struct {
	prepared.Knobs
	Schedule nn.Schedule
	TimeOps  ops.Mode
}

// KnobTable describes each knob, the loader's first. To add a knob, add a row and a field in
// Knobs, and make it do something.
var KnobTable = knob.NewTable(append(
	knob.Within(loader.KnobTable, func(k *Knobs) *loader.Knobs { return &k.Loader }),
	knob.Table[Knobs]{
		{
			Spec: knob.Spec{
				Name: "precision", Group: knob.GroupEngine, Values: precisions, Applied: "next step",
				Help: "type of activations and of the matrix products; parameters stay fp32",
			},
			Field: func(k *Knobs) any { return (*precision)(&k.Precision) },
			Flag:  knob.Flag{Value: "TYPE", Note: "not given, CUDA devices take bf16, or fp16 before compute capability 8.0"},
		},
		{
			Spec: knob.Spec{
				Name: "optimizer", Type: "text", Group: knob.GroupEngine, Values: nn.OptimizerNames(), Applied: "next step",
				Help: "how weights are made of gradients, with PyTorch's names, settings and defaults: adamw,lr=3e-4,weight_decay=0.05; decay=weights spares norms and biases; auto: SGD with momentum as suits the model. Another one begins anew; a new lr does not",
			},
			Field: func(k *Knobs) any { return &k.Optimizer },
			Flag:  knob.Flag{Value: "NAME[,SETTING=N]..."},
		},
		{
			Spec: knob.Spec{
				Name: "schedule", Type: "text", Group: knob.GroupEngine, Values: nn.ScheduleNames(), Applied: "next step",
				Help: "what becomes of the learning rate, as PyTorch's schedulers have it: onecycle,max_lr=0.1 or cosine,warmup=500, over the run's updates; step,step_size=30,gamma=0.1, in epochs; auto: a warm-up with optimizer=auto, else constant. A change begins it anew",
			},
			Field: func(k *Knobs) any { return &k.Schedule },
			Flag:  knob.Flag{Value: "NAME[,SETTING=N]..."},
		},
		{
			Spec: knob.Spec{
				Name: "gradient_accumulation", Group: knob.GroupEngine, Min: 1, Max: 64, Values: []string{"1", "2", "4", "8", "16", "32", "64"}, Applied: "next step",
				Help: "batches whose gradients make one optimizer step",
			},
			Default: "1",
			Field:   func(k *Knobs) any { return &k.Accumulate },
		},
		{
			Spec: knob.Spec{
				Name: "checkpointing", Group: knob.GroupEngine, Applied: "next step",
				Help: "keep fewer activations and compute the others again: less memory, more time",
			},
			Field: func(k *Knobs) any { return &k.Checkpoint },
		},
		{
			Spec: knob.Spec{
				Name: "dropout", Group: knob.GroupEngine, Values: []string{"0", "0.1", "0.2", "0.3", "0.5"}, Applied: "next step",
				Help: "share of what the last layer reads that a training step leaves out, drawn from the seed and the step",
			},
			Default: "0",
			Field:   func(k *Knobs) any { return &k.Dropout },
			Flag:    knob.Flag{Value: "SHARE", Note: "any share up to 0.9"},
		},
		{
			Spec: knob.Spec{
				Name: "label_smoothing", Group: knob.GroupEngine, Values: []string{"0", "0.05", "0.1", "0.2"}, Applied: "next step",
				Help: "share of a label that the loss spreads over all classes",
			},
			Default: "0",
			Field:   func(k *Knobs) any { return &k.Smoothing },
			Flag:    knob.Flag{Value: "SHARE", Note: "any share up to 0.9"},
		},
		{
			Spec: knob.Spec{
				Name: "capture", Group: knob.GroupEngine, Applied: "next step",
				Help: "replay the step as one captured graph instead of launching each kernel (CUDA)",
			},
			Field: func(k *Knobs) any { return &k.Capture },
			Flag:  knob.Flag{Note: "not given, CUDA devices do"},
			Idle: func(k Knobs) string {
				if k.Capture && k.TimeOps == ops.Every {
					return "time_ops=every times every step, and a timed step is no captured graph; time_ops=sampled lets the others be"
				}
				return ""
			},
		},
		{
			Spec: knob.Spec{
				Name: "autotune", Group: knob.GroupEngine, Applied: "next step",
				Help: "take the kernel variants that a trial on this GPU found right and fastest, trying those not tried yet; off: the planner's guesses",
			},
			Default: "on",
			Field:   func(k *Knobs) any { return &k.Autotune },
		},
		{
			Spec: knob.Spec{
				Name: "time_ops", Group: knob.GroupEngine, Values: []string{"off", "sampled", "every"}, Applied: "next step",
				Help: "steps whose ops are timed one by one: none, more often at first and then 1 in 32 or fewer (as few as keep the cost near 1 %), or every one; a timed step is never a captured graph",
			},
			Field: func(k *Knobs) any { return &k.TimeOps },
			Flag:  knob.Flag{Value: "WHEN", Alone: "every"},
		},
	}...,
))

// onDevice changes a knob's spec to what holds on a device.
var onDevice = map[string]func(s *knob.Spec, info device.Info){
	"pin_memory": func(s *knob.Spec, info device.Info) { s.NoEffect = info.PinNote },
	"device_transforms": func(s *knob.Spec, info device.Info) {
		if !info.Computes {
			s.Help += "; on this device only the bytes copied change"
		}
	},
	"precision": func(s *knob.Spec, info device.Info) {
		s.Values = info.Types
		if info.TypeNote != "" {
			s.Help += "; " + info.TypeNote
		}
		if len(info.Types) < 2 {
			s.NoEffect = "this device computes in fp32 only"
		}
		s.DefaultHere = info.Mixed
	},
	"capture": func(s *knob.Spec, info device.Info) {
		s.DefaultHere = "on"
		if info.Kind != "cuda" {
			s.DefaultHere, s.NoEffect = "", "only CUDA devices capture graphs"
		}
	},
	"autotune": func(s *knob.Spec, info device.Info) {
		s.NoEffect = info.TuneNote
		if info.Kind != "cuda" {
			s.NoEffect = "only CUDA devices have kernels to choose from"
		}
		if s.NoEffect != "" {
			s.DefaultHere = "off"
		}
	},
}

// DefaultKnobs returns PyTorch's defaults, except for what every training script sets:
// batches of 128, shuffled.
func DefaultKnobs() Knobs {
	k := KnobTable.Defaults()
	k.Loader.BatchSize, k.Loader.Shuffle = 128, true
	return k
}

// DefaultsOn returns the defaults on a device. The engine's knobs get the values that
// people train with there, because a step that fp32 or launches slow down hides what the
// loader costs. The loader's knobs get PyTorch's defaults everywhere.
func DefaultsOn(info device.Info) Knobs {
	k := DefaultKnobs()
	for _, s := range Specs(info) {
		if s.DefaultHere == "" {
			continue
		}
		if err := k.Set(s.Name, s.DefaultHere); err != nil {
			panic(fmt.Sprintf("train: a default on %s: %v", info.Name, err))
		}
	}
	return k
}

// Set changes one knob by its name and text value.
func (k *Knobs) Set(name, value string) error { return KnobTable.Set(k, name, value) }

// List returns all knobs as name/value pairs, in the table's order.
func (k Knobs) List() []knob.Setting { return KnobTable.List(k) }

// Specs describes the knobs for a device. A knob without effect there says why.
func Specs(info device.Info) []knob.Spec {
	specs := KnobTable.Specs()
	for i := range specs {
		if change := onDevice[specs[i].Name]; change != nil {
			change(&specs[i], info)
		}
	}
	return specs
}

// Check refuses what the loader or the device cannot do.
func (k Knobs) Check(info device.Info) error {
	if err := KnobTable.Check(k); err != nil {
		return err
	}
	if t := k.Precision.String(); !slices.Contains(info.Types, t) {
		return errs.New("set", "precision="+t, fmt.Sprintf("%s runs %s only", info.Name, strings.Join(info.Types, ", ")),
			"choose "+knob.Choice(info.Types)).Because(device.ErrUnsupported)
	}
	return nil
}

// precisions has the values of the knob precision, indexed by kernels.Type.
var precisions = []string{"fp32", "tf32", "fp16", "bf16"}

// precision is a kernels.Type as the value of a knob.
type precision kernels.Type

func (p *precision) String() string { return kernels.Type(*p).String() }

func (p *precision) UnmarshalText(text []byte) error {
	i := slices.Index(precisions, string(text))
	if i < 0 {
		return errs.Reason("no precision", "choose "+knob.Choice(precisions))
	}
	*p = precision(i)
	return nil
}
