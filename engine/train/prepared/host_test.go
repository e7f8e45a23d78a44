package prepared_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/device/cpu"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/train/nn"
	"dev.gpustall/engine/train/prepared"
	"dev.gpustall/loader"
)

// openOn opens steps on a host that allows so many bytes; 0 means not known.
func openOn(t *testing.T, allows int64, k loader.Knobs) (*prepared.Steps, error) {
	t.Helper()
	c, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New("cnn", nn.Shape{H: 8, W: 8, C: 3}, 4)
	if err != nil {
		t.Fatal(err)
	}
	const others = 100 << 20
	has := host.Memory{Limit: allows + others, Cgroup: true, Others: others, Held: 20 << 20}
	if allows == 0 {
		has = host.Memory{}
	}
	p, err := prepared.Open(prepared.Config{
		Task:   prepared.Task{Model: m, Seed: 1, HostMemory: func() host.Memory { return has }},
		Device: c, Recorder: trace.NewRecorder(trace.NewClock(), 0), Quiesce: func() error { return nil },
		Split: prepared.Split{Dataset: loader.Info{Samples: 4000, H: 8, W: 8, C: 3, Bytes: 4000 * 192}}, Hold: 4,
	}, prepared.Knobs{Loader: k, Accumulate: 1})
	t.Cleanup(func() {
		if p != nil {
			p.Close()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, err
}

// TestHostMemory: knobs that do not fit are refused, and the refusal lists the parts.
// Each of the ways out that it names fits, and is the largest that does.
func TestHostMemory(t *testing.T) {
	k := loader.DefaultKnobs()
	k.BatchSize, k.NumWorkers, k.PrefetchFactor = 1000, 6, 4
	p, err := openOn(t, 0, k)
	if err != nil {
		t.Fatal(err)
	}
	m := p.HostMemory()
	if slot := int64(loader.NewLayout(loader.Info{H: 8, W: 8, C: 3}, 1000, false).Size); m.Batches != (6*4+4)*slot || m.Pinned != 0 {
		t.Errorf("planned %+v, want 28 batches of %d", m, slot)
	}
	if m.Device != p.Memory() || m.Workers < 6 || m.Session < 96<<20 {
		t.Errorf("planned %+v, the device %+v", m, p.Memory())
	}
	allows := m.Total() + 20<<20 // that the process holds
	if _, err := openOn(t, allows, k); err != nil {
		t.Errorf("exactly enough: %v", err)
	}
	allows = allows - 9<<20
	_, err = openOn(t, allows, k)
	says := regexp.MustCompile(`^plan 28 batches of batch_size=1000 \([\d.]+ KiB each\): it needs ([\d.]+ MiB) of the host's memory \(.*batches [\d.]+ MiB.*process and data set 20.0 MiB.*\), but the cgroup of this process allows [\d.]+ MiB, of which others hold 100 MiB; lower batch_size to (\d+) or num_workers to (\d+) or prefetch_factor to (\d+)$`)
	found := says.FindStringSubmatch(fmt.Sprint(err))
	if !errors.Is(err, prepared.ErrHostMemory) || found == nil {
		t.Fatalf("it says %v", err)
	}
	t.Log(err)
	for i, knob := range []func(*loader.Knobs) *int{
		func(k *loader.Knobs) *int { return &k.BatchSize },
		func(k *loader.Knobs) *int { return &k.NumWorkers },
		func(k *loader.Knobs) *int { return &k.PrefetchFactor },
	} {
		n, err := strconv.Atoi(found[i+2])
		if err != nil {
			t.Fatal(err)
		}
		for more, want := range []bool{true, false} {
			k := k
			*knob(&k) = n + more
			if _, err := openOn(t, allows, k); (err == nil) != want {
				t.Errorf("%+v: %v", k, err)
			}
		}
	}
	if _, err := openOn(t, 1<<20, k); err == nil || !strings.HasSuffix(err.Error(), "not even batch_size=1 fits") {
		t.Errorf("where nothing fits: %v", err)
	}
}

// TestHostMemoryLive: a change for which the host has too little memory is refused, and
// the steps in force stay untouched. This holds even for a change that no prepared step
// depends on.
func TestHostMemoryLive(t *testing.T) {
	k := loader.DefaultKnobs()
	k.BatchSize, k.NumWorkers = 1000, 2
	p, err := openOn(t, 192<<20, k)
	if err != nil {
		t.Fatal(err)
	}
	with := prepared.Knobs{Loader: k, Accumulate: 1}
	if err := p.Warm(with); err != nil {
		t.Fatal(err)
	}
	was := p.Find(prepared.Key{Samples: 1000})
	for name, change := range map[string]func(*loader.Knobs){
		"num_workers":     func(k *loader.Knobs) { k.NumWorkers = 64 },
		"prefetch_factor": func(k *loader.Knobs) { k.NumWorkers, k.PrefetchFactor = 20, 16 },
		"batch_size":      func(k *loader.Knobs) { k.BatchSize = 4000 },
	} {
		to := with
		change(&to.Loader)
		err := p.Apply(to)
		if !errors.Is(err, prepared.ErrHostMemory) {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Revert(); err != nil {
			t.Error(err)
		}
		if p.Find(prepared.Key{Samples: 1000}) != was {
			t.Errorf("%s: the step in force is gone", name)
		}
	}
	with.Loader.NumWorkers = 3
	if err := p.Apply(with); err != nil {
		t.Errorf("a change that fits: %v", err)
	}
}
