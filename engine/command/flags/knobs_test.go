package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/train"
	"dev.gpustall/engine/train/ops"
	"dev.gpustall/loader"
)

// knobsOf returns the knobs that a command line asks for.
func knobsOf(args ...string) (train.Knobs, *Knobs, error) {
	var ks Knobs
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	ks.Add(fs, true)
	if err := fs.Parse(args); err != nil {
		return train.Knobs{}, &ks, err
	}
	k, err := ks.Over(train.DefaultKnobs())
	return k, &ks, err
}

// TestKnobFlags: every knob has a flag of its name, which takes the values that the shell
// completes.
func TestKnobFlags(t *testing.T) {
	var ks Knobs
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	ks.Add(fs, true)
	for _, k := range train.DefaultKnobs().List() {
		name := Name(k.Name)
		if what, ok := strings.CutPrefix(k.Name, knob.InjectPrefix); ok {
			if err := fs.Set(knob.GroupInject, what+"="+k.Value); err != nil {
				t.Error(err)
			}
			continue
		}
		flag := fs.Lookup(name)
		if flag == nil || flag.DefValue != k.Value {
			t.Errorf("%s: the flag is %+v, the default %s", k.Name, flag, k.Value)
			continue
		}
		for _, word := range flag.Value.(*Knob).Words() {
			if err := fs.Set(name, word); err != nil || flag.Value.String() != word {
				t.Errorf("--%s %s is %s: %v", name, word, flag.Value, err)
			}
		}
	}
}

func TestKnobFlagValues(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		args string
		want func(k *train.Knobs)
		err  string
	}{
		{"", func(*train.Knobs) {}, ""},
		{"--num-workers 3 --pin-memory --shuffle=off", func(k *train.Knobs) {
			k.Loader.NumWorkers, k.Loader.PinMemory, k.Loader.Shuffle = 3, true, false
		}, ""},
		{"--capture --activation-checkpointing=true --gradient-accumulation 4", func(k *train.Knobs) { k.Capture, k.Checkpoint, k.Accumulate = true, true, 4 }, ""},
		{"--checkpointing", func(k *train.Knobs) { k.Checkpoint = true }, ""}, // its former name
		{"--time-ops", func(k *train.Knobs) { k.TimeOps = ops.Every }, ""},
		{"--time-ops=off", func(k *train.Knobs) { k.TimeOps = ops.Off }, ""},
		{"--autotune off", func(k *train.Knobs) { k.Autotune = false }, ""},
		{"--autotune off --autotune again", func(*train.Knobs) {}, ""},
		{"--inject none", func(*train.Knobs) {}, ""},
		{"--inject read=5ms --inject cpu=2ms,straggler=3:50ms", func(k *train.Knobs) {
			k.Loader.Inject = loader.Inject{Read: 5 * ms, CPU: 2 * ms, Straggler: 3, Delay: 50 * ms}
		}, ""},
		{"--inject read=5ms --inject none", func(*train.Knobs) {}, ""},
		{"--inject read=5ms --inject read=off", func(*train.Knobs) {}, ""},
		{"--autotune maybe", nil, `autotune="maybe": none of its values; choose on, off, again or known`},
		{"--precision fp9", nil, "choose fp32, tf32, fp16 or bf16"},
		{"--num-workers 65", nil, "num_workers=65: out of range; choose 0 to 64"},
		{"--persistent-workers", nil, "needs num_workers > 0"},
		{"--inject read", nil, "write read=5ms, cpu=2ms, straggler=3:50ms or none"},
		{"--inject disk=5ms", nil, `there is no bottleneck "disk"; choose read, cpu or straggler`},
		{"--inject read=fast", nil, "inject_read=fast: not a time"},
		{"--inject read=-1s", nil, "choose 0 to 10s"},
		{"--inject cpu=11s", nil, "choose 0 to 10s"},
		{"--inject straggler=3", nil, "as in 3:50ms"},
		{"--inject straggler=x:5ms", nil, "as in 3:50ms"},
		{"--inject straggler=65:5ms", nil, "choose 1 to 64"},
	} {
		got, _, err := knobsOf(strings.Fields(c.args)...)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.args, err, c.err)
			}
			continue
		}
		want := train.DefaultKnobs()
		c.want(&want)
		if err != nil || got != want {
			t.Errorf("%s: %v: %+v, want %+v", c.args, err, got, want)
		}
	}
}

// TestAgain: --autotune takes again, which the knob does not.
func TestAgain(t *testing.T) {
	k, ks, err := knobsOf("--autotune", TuneAgain)
	if err != nil || !k.Autotune || ks.Text("autotune") != TuneAgain {
		t.Errorf("autotune is %v, the flag %q: %v", k.Autotune, ks.Text("autotune"), err)
	}
	if err := k.Set("autotune", TuneAgain); err == nil {
		t.Error("again is no value of the knob")
	}
}
