package loader

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestValidate(t *testing.T) {
	good := Knobs{NumWorkers: 2, BatchSize: 4, InOrder: true}
	for _, c := range []struct {
		name   string
		change func(k *Knobs)
		words  string // parts of the refusal, separated by |; empty when it is allowed
	}{
		{"defaults", func(k *Knobs) { *k = DefaultKnobs() }, ""},
		{"prefetch unset with workers", func(k *Knobs) {}, ""},
		{"workers negative", func(k *Knobs) { k.NumWorkers = -1 }, "num_workers=-1|0 to 64"},
		{"workers many", func(k *Knobs) { k.NumWorkers = 65 }, "num_workers=65|0 to 64"},
		{"prefetch negative", func(k *Knobs) { k.PrefetchFactor = -1 }, "prefetch_factor=-1|1 to 16"},
		{"prefetch large", func(k *Knobs) { k.PrefetchFactor = 17 }, "prefetch_factor=17|1 to 16"},
		{"prefetch without workers", func(k *Knobs) { k.NumWorkers, k.PrefetchFactor = 0, 2 }, "prefetch_factor=2|num_workers > 0|unset"},
		{"persistent without workers", func(k *Knobs) { k.NumWorkers, k.PersistentWorkers = 0, true }, "persistent_workers=on|num_workers > 0"},
		{"timeout without workers", func(k *Knobs) { k.NumWorkers, k.Timeout = 0, time.Second }, ""},
		{"timeout negative", func(k *Knobs) { k.Timeout = -1 }, "timeout=-1ns|0 "},
		{"batch zero", func(k *Knobs) { k.BatchSize = 0 }, "batch_size=0|1 to "},
		{"batch of more than there is", func(k *Knobs) { k.BatchSize = 11 }, ""},
		{"the same, dropped", func(k *Knobs) { k.BatchSize, k.DropLast = 11, true }, "batch_size=11|drop_last=on|10 samples of numbers|1 to 10"},
		{"read injected too slow", func(k *Knobs) { k.Inject.Read = time.Minute }, "inject_read=1m0s|10s"},
		{"straggler beyond", func(k *Knobs) { k.Inject = Inject{Straggler: 65, Delay: 1} }, "inject_straggler=65|1 to 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := good
			c.change(&k)
			_, err := New(Options{Dataset: &numbers{samples: 10}, Transform: mix{}, Knobs: k, Epochs: 1})
			l := open(t, Options{Dataset: &numbers{samples: 10}, Knobs: good})
			serr := l.Set(k)
			if c.words == "" {
				if err != nil || serr != nil || l.Knobs() != k {
					t.Fatalf("refused: %v, %v", err, serr)
				}
				return
			}
			for _, err := range []error{err, serr} {
				if err == nil {
					t.Fatal("not refused")
				}
				for w := range strings.SplitSeq(c.words, "|") {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%q does not say %q", err, w)
					}
				}
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is more than a sentence", err)
				}
			}
			if l.Knobs() != good {
				t.Errorf("a refused change left %+v", l.Knobs())
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"no data":    {Transform: mix{}, Knobs: DefaultKnobs()},
		"no samples": {Dataset: &numbers{}, Transform: mix{}, Knobs: DefaultKnobs()},
		"epochs":     {Dataset: &numbers{samples: 1}, Transform: mix{}, Knobs: DefaultKnobs(), Epochs: -1},
	} {
		if l, err := New(o); err == nil {
			l.Close()
			t.Errorf("%s: not refused", name)
		}
	}
}

// TestKnobsAsText: Set reads what List writes, for all knobs but an unset prefetch_factor.
// For that List writes the value in force.
func TestKnobsAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawKnobs.Draw(t, "knobs")
		got := DefaultKnobs()
		for _, kv := range KnobTable.List(k) {
			if err := KnobTable.Set(&got, kv.Name, kv.Value); err != nil {
				t.Fatal(err)
			}
		}
		want := k
		want.PrefetchFactor = k.Prefetch()
		if i := &want.Inject; i.Straggler == 0 || i.Delay == 0 {
			i.Straggler, i.Delay = 0, 0
		}
		if got != want {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

func TestSetText(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        Knobs
		err         string
	}{
		{"num_workers", "8", Knobs{NumWorkers: 8}, ""},
		{"prefetch_factor", "unset", Knobs{}, ""},
		{"pin_memory", "true", Knobs{PinMemory: true}, ""},
		{"in_order", "off", Knobs{}, ""},
		{"timeout", "1.5s", Knobs{Timeout: 1500 * time.Millisecond}, ""},
		{"inject_read", "5ms", Knobs{Inject: Inject{Read: 5 * time.Millisecond}}, ""},
		{"inject_straggler", "3:50ms", Knobs{Inject: Inject{Straggler: 3, Delay: 50 * time.Millisecond}}, ""},
		{"inject_straggler", "off", Knobs{}, ""},
		{"num_workers", "many", Knobs{}, "set num_workers=many: not a whole number; choose 0 to 64"},
		{"num_workers", "99", Knobs{}, "set num_workers=99: out of range; choose 0 to 64"},
		{"pin_memory", "yes", Knobs{}, "set pin_memory=yes: neither on nor off; choose one of the two"},
		{"timeout", "5", Knobs{}, "set timeout=5: not a time; write it as in 5ms or 1.5s, or off"},
		{"inject_read", "1h", Knobs{}, "set inject_read=1h: out of range; choose 0 to 10s"},
		{"workers", "1", Knobs{}, "set workers: there is no knob of that name; take one that the help lists"},
	} {
		var k Knobs
		err := KnobTable.Set(&k, c.name, c.value)
		if k != c.want {
			t.Errorf("%s=%s: %s", c.name, c.value, cmp.Diff(c.want, k))
		}
		if got := errorText(err); got != c.err {
			t.Errorf("%s=%s: error %q, want %q", c.name, c.value, got, c.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestIdleStraggler: a straggler that names no worker says so.
func TestIdleStraggler(t *testing.T) {
	for _, tt := range []struct {
		workers int
		inject  string
		says    string
	}{
		{2, "straggler=9:50ms", "it names worker 9 and there are 2; name one of 1 to 2, or raise num_workers"},
		{1, "straggler=2:50ms", "it names worker 2 and there is 1"},
		{0, "straggler=2:50ms", "it names worker 2 and there are none"},
		{0, "straggler=1:50ms", ""}, // the step loop's own
		{2, "straggler=2:50ms", ""},
		{2, "read=5ms", ""},
		{2, "straggler=off", ""},
	} {
		k := DefaultKnobs()
		k.NumWorkers = tt.workers
		name, value, _ := strings.Cut(tt.inject, "=")
		if err := KnobTable.Set(&k, "inject_"+name, value); err != nil {
			t.Fatal(err)
		}
		if got := k.idleStraggler(); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%d workers, %s: %q", tt.workers, tt.inject, got)
		}
	}
}
